"""What the kernel counted against what was recorded: as a table of traces, and in a real box."""

from __future__ import annotations

import pytest

from grader.classroom import running
from grader.ranks.engines import Engines
from grader.ranks.program import Function, Program, Run, same_for_all
from grader.ranks.traffic import Contradiction, Traffic, contradiction
from grader.sandbox import client
from grader.sandbox.client import Client
from grader.sandbox.warm import BoxFailed, Unwatched
from grader.trace.events import RECV, SEND, Operation, Step, Trace

SIZE = 2**20


def trace(done: bool = True) -> Trace:
    """Rank 0 sends a MiB to rank 1, and rank 1 one to rank 0."""
    made = Trace(2)
    for rank in range(2):
        for number, kind in enumerate((SEND, RECV)):
            op = Operation(rank, number, kind, 1 - rank, 0, SIZE, 0, posted=number, info=0)
            op.done = done
            made.steps[rank].append(Step("post", op))
    return made


@pytest.mark.parametrize(
    ("carried", "received", "about"),
    [
        (2 * SIZE + 6000, (SIZE + 144, SIZE + 144), ()),
        (2 * SIZE + 6000, (SIZE + 96, SIZE + 192), ()),
        (2 * SIZE + 6000, (SIZE + 150, SIZE + 144), (0,)),
        (2 * SIZE + 6000, (SIZE, SIZE + 144), (0,)),
        (2 * SIZE + 6000, (SIZE - 1, SIZE + 144), (0,)),
        (2 * SIZE + 6000, (SIZE + 144, 0), (1,)),
        (3 * SIZE + 6000, (SIZE + 144, 2 * SIZE), (1,)),
        (4 * SIZE, (SIZE + 144, SIZE + 144), (None,)),
        (SIZE, (SIZE + 144, SIZE + 144), (None,)),
    ],
    ids=[
        "as recorded",
        "with one header less, and one more",
        "no whole number of headers",
        "no header",
        "less to rank 0",
        "nothing to rank 1",
        "more to rank 1",
        "more by other sockets",
        "less in all",
    ],
)
def test_counters_and_records_that_cannot_both_be_right(
    carried: int, received: tuple[int, int], about: tuple[int | None, ...]
) -> None:
    found = contradiction(Traffic(carried, received), trace())
    assert (() if found is None else (found.rank,)) == about


def test_what_is_still_on_its_way_may_have_been_carried_or_not() -> None:
    for received in (0, SIZE):
        assert contradiction(Traffic(2 * received + 500, (received, received)), trace(done=False)) is None
    assert contradiction(Traffic(4 * SIZE, (2 * SIZE, 2 * SIZE)), trace(done=False)) is not None


HEAD = """import socket, torch, torch.distributed as dist

def f():
    r = dist.get_rank()
    x = torch.ones(2**17)
"""
HONEST = "    q = dist.isend(x, 1 - r); y = torch.empty_like(x); dist.recv(y, 1 - r); q.wait()\n"
OWN_SOCKET = """
    server = socket.create_server(("127.0.0.1", 0))
    port = torch.tensor(server.getsockname()[1]); other = torch.zeros_like(port)
    q = dist.isend(port, 1 - r); dist.recv(other, 1 - r); q.wait()
    out = socket.create_connection(("127.0.0.1", int(other)))
    out.sendall(bytes(100_000))
    taken, _ = server.accept()
    got = 0
    while got < 100_000: got += len(taken.recv(2**16))
"""
STORE = """
    store = dist.distributed_c10d._get_default_store()
    store.set(f"{r}", bytes(100_000))
    store.get(f"{1 - r}")
"""


@pytest.mark.parametrize(
    ("body", "ending"),
    [(HONEST, "finished"), (HONEST * 5, "finished"), (OWN_SOCKET, "crashed"), (STORE, "crashed")],
    ids=["one message", "five messages", "a socket of its own", "the store"],
)
def test_the_kernel_sees_what_is_not_recorded(engines: Engines, body: str, ending: str) -> None:
    program = Program.of(HEAD + body, "learner.py", "f", (), p2p_only=True)
    run = engines.run("gloo", program, 2, [same_for_all(2)] * 2)
    if engines.warm.mode != "full":
        pytest.skip("without full isolation others share the network, and its counters say nothing")
    assert run.ending == ending, run.diagnoses
    if ending == "crashed":
        assert run.diagnoses[0].kind == "sandbox_violation"
        assert "went over the network" in run.diagnoses[0].message


def honest(engines: Engines) -> Run:
    if engines.warm.mode != "full":
        pytest.skip("without full isolation others share the network, and its counters say nothing")
    return engines.run("gloo", Program.of(HEAD + HONEST, "learner.py", "f", (), p2p_only=True), 2, [same_for_all(2)])


@pytest.mark.parametrize(("times", "ending"), [(1, "finished"), (2, "crashed")])
def test_nobody_is_accused_by_counters_that_do_not_fit_once(
    engines: Engines, monkeypatch: pytest.MonkeyPatch, times: int, ending: str
) -> None:
    odd: list[Contradiction | None] = [Contradiction(0, 1, 2)] * times
    monkeypatch.setattr("grader.ranks.traffic.contradiction", lambda *_: odd.pop() if odd else None)
    run = honest(engines)
    assert (run.ending, odd) == (ending, [])
    assert [found.kind for found in run.diagnoses] == ["sandbox_violation"] * (ending == "crashed")


@pytest.mark.parametrize("times", [1, 2])
def test_nobody_is_accused_by_a_keeper_that_says_nothing(
    engines: Engines, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    put, silent = Client.traffic, [b"look"] * times  # which it answers with something else

    def asked(self: Client) -> object:
        if not silent:
            return put(self)
        with monkeypatch.context() as patch:
            patch.setattr(client, "LOOKS_FOR_TRAFFIC", 3)
            patch.setattr(self.box.keeper, "put", lambda _: silent.pop())
            return put(self)

    monkeypatch.setattr(Client, "traffic", asked)
    if times == 1:
        assert honest(engines).finished
    else:
        with pytest.raises(Unwatched, match="did not answer"):
            honest(engines)
    assert issubclass(Unwatched, BoxFailed), "which says that nothing was graded"
    assert not silent


DDP = """
    from torch.nn.parallel import DistributedDataParallel
    model = DistributedDataParallel(torch.nn.Linear(100, 100))  # kept: its hooks end with it
    model(torch.ones(4, 100)).sum().backward()
"""


@pytest.mark.heavy
def test_what_is_not_recorded_is_counted_by_the_kernel(engines: Engines) -> None:
    program = Program(HEAD + DDP, "learner.py", (Function("f"),), watched=True, imported=("torch._dynamo",))
    run = engines.run("gloo", program, 2, [same_for_all(2)])
    assert (run.ending, run.unseen) == ("finished", "DistributedDataParallel"), run.diagnoses
    if engines.warm.mode == "full":
        assert min(run.sent) > 100 * 100 * 4, f"the gradients are missing in {run.sent}"


def test_counts_that_nobody_made_are_none() -> None:
    traced = Trace(2)
    for run, sent in (
        (Run(2, "finished", (), traced, unseen="DistributedDataParallel"), [None, None]),
        (Run(2, "finished", (), traced, unseen="DistributedDataParallel", sent=(7, 9)), [7, 9]),
        (Run(2, "finished", (), traced, sent=(2**20, 2**20)), [2**20, 2**20]),
        (Run(2, "finished", (), traced, sent=(300, 300)), [0, 0]),
    ):
        ranks = running.Ran(run, "", 1, "gloo", "", "", ()).ranks()
        assert [rank["bytes_sent"] for rank in ranks] == sent
        assert [rank["messages_sent"] is None for rank in ranks] == [sent != [0, 0]] * 2
