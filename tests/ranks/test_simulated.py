"""Simulated ranks: the same answers as real processes, the same run for the same seed, and a word for every bad end."""

from __future__ import annotations

import hashlib
import textwrap

import numpy as np
import pytest

from grader.ranks.engines import Engines
from grader.ranks.network import ROUNDS, Network
from grader.ranks.program import Call, Limits, Program, Run, Strided, same_for_all
from grader.ranks.simulated import NeedsProcesses
from grader.trace.replay import rounds

HEAD = "import os, random, time\nimport torch, torch.distributed as dist\ndef f():\n"
RANK = "r, n = dist.get_rank(), dist.get_world_size()\nx = torch.zeros(4) + r\n"
QUICK = Limits(cpu_seconds=0.4, idle_seconds=0.8)


def program(body: str, p2p_only: bool = False) -> Program:
    return Program.of(HEAD + textwrap.indent(RANK + textwrap.dedent(body), "    "), "learner.py", "f", (), p2p_only)


def simulate(engines: Engines, body: str, ranks: int = 3, seed: int = 1, network: Network = ROUNDS) -> Run:
    return engines.run("sim", program(body), ranks, [same_for_all(ranks)], seed, QUICK, network, strictly=True)


# what it does; both engines must agree on ending, kind, line, results, bytes and messages
PROGRAMS = {
    "a ring": "q = dist.isend(x, (r+1)%n); y = torch.zeros(4); dist.recv(y, (r-1)%n); q.wait()\nreturn y",
    "tags out of order": (
        "y = torch.zeros(4)\n"
        "if r == 0:\n    a = dist.isend(x, 1, tag=1); b = dist.isend(x + 7, 1, tag=2); b.wait(); a.wait()\n"
        "if r == 1: dist.recv(y, 0, tag=2)\nif r == 1: dist.recv(x, 0, tag=1)\nreturn [x, y]"
    ),
    "any source": "if r: dist.send(x, 0)\nelse: return sorted([dist.recv(x), dist.recv(x)])",
    "a shorter message": "if r == 0: dist.send(x[:2] + 5, 1)\nif r == 1: dist.recv(x, 0)\nreturn x",
    "batch": (
        "y = torch.zeros(4)\nops = [dist.P2POp(dist.isend, x, (r+1)%n), dist.P2POp(dist.irecv, y, (r-1)%n)]\n"
        "for q in dist.batch_isend_irecv(ops): q.wait()\nreturn y"
    ),
    "empty messages": "if r == 0: dist.send(x[:0], 1)\nif r == 1: dist.recv(x[:0], 0)",
    "all send first": "dist.send(x, (r + 1) % n)\ndist.recv(x, (r - 1) % n)",
    "all receive first": "dist.recv(x, (r - 1) % n)",
    "tags that never meet": (
        "if r == 0: dist.send(x, 1, tag=1)\nif r == 1: dist.recv(x, 0, tag=2)\nif r == 2: dist.recv(x, 1)"
    ),
    "returns early": "if r == 2: return\nif r == 0: dist.recv(x, 2)\nif r == 1: dist.send(x, 0)",
    "raises on one": "if r == 1: [][1]\ndist.recv(x, 1) if r == 0 else None",
    "raises on all": "1 / 0",
    "no such rank": "dist.send(x, 3)",
    "to itself": "dist.send(x, r)",
    "strided": "dist.send(torch.zeros(4, 2)[:, 0], 1) if r == 0 else None",
    "never waits": "if r == 0: dist.isend(x, 1)\nif r == 1: dist.recv(x, 0)",
    "changes what it sends": "if r == 0:\n    q = dist.isend(x, 1); x += 1; q.wait()\nif r == 1: dist.recv(x, 0)",
}  # fmt: skip


def essence(run: Run) -> tuple[object, ...]:
    """What must not depend on the engine."""
    found = run.diagnoses[0] if run.diagnoses else None
    where = (found.kind, found.line, found.rank) if found else None
    trace = run.calls[0].trace if run.calls else run.trace
    sent = [(trace.bytes_sent(rank), trace.messages_sent(rank)) for rank in range(run.ranks)]
    returned = [plain(value) for value in run.calls[0].returned] if run.calls else None
    return run.ending, where, sent if run.finished else None, returned


def plain(value: object) -> object:
    if isinstance(value, Strided):
        return value.view().tolist()
    return [plain(part) for part in value] if isinstance(value, list) else value


@pytest.mark.parametrize("body", PROGRAMS.values(), ids=PROGRAMS.keys())
def test_the_simulator_agrees_with_gloo(engines: Engines, body: str) -> None:
    real = engines.run("gloo", program(body), 3, [same_for_all(3)], 1, QUICK)
    assert essence(simulate(engines, body)) == essence(real)


@pytest.mark.parametrize("ranks", [2, 5, 16])
def test_virtual_time_of_a_ring_is_latency_and_transfer(engines: Engines, ranks: int) -> None:
    body = (
        "y = torch.zeros(4)\nfor _ in range(6):\n"
        "    q = dist.isend(x, (r+1)%n); dist.recv(y, (r-1)%n); q.wait(); x.copy_(y)"
    )
    call = simulate(engines, body, ranks, network=Network(alpha=1e-5, beta=1e-9)).calls[0]
    assert call.finish == pytest.approx([6 * (1e-5 + 16e-9)] * ranks)


def test_a_collective_tells_when_it_moved_data(engines: Engines) -> None:
    body = """\
        works = [dist.all_reduce(torch.zeros(4), async_op=True) for _ in range(2)]
        time.sleep(5)
        return [[works[k].wait(), *works[k].span] for k in range(2)]
    """
    call = simulate(engines, body, 2).calls[0]
    assert call.returned[0] == [[True, 0.0, 2.0], [True, 2.0, 4.0]], "one after the other, two rounds each"


@pytest.mark.parametrize("body", [PROGRAMS[name] for name in ("a ring", "any source", "batch")])
def test_replaying_the_trace_gives_the_simulators_rounds(engines: Engines, body: str) -> None:
    call = simulate(engines, body).calls[0]
    assert rounds(call.trace) == list(call.finish)


def test_the_same_seed_gives_the_same_trace(engines: Engines) -> None:
    body = (
        "if r: dist.send(x, 0)\nelse:\n    for _ in range(n - 1): dist.recv(x)\nreturn [random.random(), torch.rand(1)]"
    )

    def digest(seed: int) -> str:
        call = simulate(engines, body, 8, seed).calls[0]
        steps = [
            [(s.what, s.operation.kind, s.operation.peer, s.operation.posted) for s in rank]
            for rank in call.trace.steps
        ]
        return hashlib.sha256(repr((steps, [plain(v) for v in call.returned], call.finish)).encode()).hexdigest()

    assert len({digest(3) for _ in range(5)}) == 1


def test_each_rank_has_its_own_random_state_and_environment(engines: Engines) -> None:
    body = (
        "if r == 1: torch.rand(5); random.random()\n"
        "q = dist.isend(x, (r+1)%n); y = torch.zeros(4); dist.recv(y, (r-1)%n); q.wait()\n"
        "return [torch.rand(1).item(), random.random(), os.environ['RANK']]"
    )
    zero, one, two = simulate(engines, body).calls[0].returned
    assert zero[:2] == two[:2] != one[:2], "rank 1 drew numbers before the others did"
    assert [zero[2], one[2], two[2]] == ["0", "1", "2"]


def test_ranks_do_not_share_module_state(engines: Engines) -> None:
    source = "seen = []\ndef f():\n    seen.append(1)\n    return len(seen)\n"
    result = engines.run("sim", Program.of(source, "a.py", "f"), 3, [same_for_all(3), same_for_all(3)])
    assert [call.returned for call in result.calls] == [(1, 1, 1), (2, 2, 2)]


def test_a_message_that_nobody_received_is_not_received_by_the_next_call(engines: Engines) -> None:
    source = HEAD.replace("f()", "f(k)") + textwrap.indent(
        RANK
        + "if r == 0: q = dist.isend(x + k, 1); q.wait() if k else None\nif r == 1 and k: dist.recv(x, 0)\nreturn x",
        "    ",
    )
    calls = [Call(tuple((k,) for _ in range(2))) for k in (0, 7)]
    first, second = engines.run("sim", Program.of(source, "a.py", "f", ("k",)), 2, calls).calls
    assert [found.kind for found in first.diagnoses] == ["race"]
    np.testing.assert_array_equal(second.returned[1].view(), np.full(4, 7.0))


def test_an_infinite_loop_is_named_with_rank_and_line(engines: Engines) -> None:
    result = simulate(engines, "while r == 2: pass")
    assert (result.ending, result.diagnoses[0].rank, result.diagnoses[0].line) == ("timed_out", 2, 6)


def test_output_is_kept_apart_by_rank(engines: Engines) -> None:
    assert simulate(engines, "print('out', r)").stdout == ("out 0\n", "out 1\n", "out 2\n")


@pytest.mark.parametrize("engine", ["sim", "gloo"])
def test_names_that_the_course_uses_are_not_called_deprecated(engines: Engines, engine: str) -> None:
    source = """
import torch, torch.distributed as dist
def f():
    n = dist.get_world_size()
    dist.all_gather_into_tensor(torch.zeros(n), torch.ones(1))
    dist.reduce_scatter_tensor(torch.zeros(1), torch.ones(n))
"""
    run = engines.run(engine, Program.of(source, "a.py", "f", ()), 2, [same_for_all(2)])
    assert (run.ending, run.stderr) == ("finished", ("", ""))


@pytest.mark.parametrize(
    "body",
    [
        "import threading\nt = threading.Thread(target=lambda: dist.send(x, (r + 1) % n)); t.start()\n"
        "dist.recv(torch.zeros(4), (r - 1) % n); t.join()",
    ],
    ids=["a thread that sends"],
)
def test_what_cannot_be_simulated_says_so_and_runs_on_real_processes(engines: Engines, body: str) -> None:
    with pytest.raises(NeedsProcesses):
        simulate(engines, body)
    assert engines.run("sim", program(body), 3, [same_for_all(3)], 1, Limits()).finished


def test_64_ranks_deadlock_at_once(engines: Engines) -> None:
    result = simulate(engines, "dist.send(x, (r + 1) % n)", 64)
    assert result.ending == "deadlocked"
    assert len(result.cycle) == 64
    assert "and so on" in result.diagnoses[0].message
