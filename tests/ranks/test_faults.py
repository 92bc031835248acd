"""Networks and faults in virtual time: what messages cost, and what becomes of a run when something breaks."""

from __future__ import annotations

import textwrap
from dataclasses import replace
from typing import Any

import pytest

from grader.ranks import faults, network
from grader.ranks.engines import Engines
from grader.ranks.network import BadNetwork, Network
from grader.ranks.program import Program, Run, same_for_all

HEAD = "import torch, torch.distributed as dist, time\nfrom grader import compute, track\ndef f():\n"
RANK = "r, n = dist.get_rank(), dist.get_world_size()\nx = torch.zeros(4) + r\n"
LINK = Network(alpha=1.0, beta=0.5)


def simulate(engines: Engines, body: str, ranks: int = 3, wires: Network = LINK, *befalls: str, **more: Any) -> Run:
    source = HEAD + textwrap.indent(RANK + textwrap.dedent(body), "    ")
    happens = [faults.parse(text, ranks) for text in befalls]
    program, calls = Program.of(source, "learner.py", "f"), [same_for_all(ranks)]
    return engines.run("sim", program, ranks, calls, 1, network=wires, faults=happens, **more)


def finish(run: Run) -> list[float]:
    assert run.finished, run.diagnoses
    return list(run.calls[0].finish)


NODES = Network(alpha=1, beta=0, ranks_per_node=2, uplink_alpha=10)
SLOW_UPLINKS = Network(alpha=1, beta=0.5, ranks_per_node=2, uplink_alpha=1, uplink_beta=4)
TIMES = {
    "a message": ("dist.send(x, 1) if r == 0 else dist.recv(x, 0) if r == 1 else None", LINK, [9, 9, 0]),
    "two from one port": (
        "if r == 0: [w.wait() for w in [dist.isend(x, 1), dist.isend(x, 2)]]\nelse: dist.recv(x, 0)", LINK, [18, 9, 18],
    ),
    "an eager send": (
        "if r == 0: dist.send(x, 1)\nif r == 1: compute(20); dist.recv(x, 0)",
        Network(alpha=1, beta=0.5, eager_bytes=16), [9, 20, 0],
    ),
    "too long to be eager": (
        "if r == 0: dist.send(x, 1)\nif r == 1: compute(20); dist.recv(x, 0)",
        Network(alpha=1, beta=0.5, eager_bytes=15), [29, 29, 0],
    ),
    "computing": ("compute(r); time.sleep(1)", LINK, [1, 2, 3]),
    "a ring all-reduce": ("dist.all_reduce(x[:3])", LINK, [2 * 2 * (1 + 4 * 0.5)] * 3),
    "a late rank": ("compute(5 * r); dist.barrier()", LINK, [12, 12, 12]),
    "within a node": ("if r < 2: dist.send(x, 1) if r == 0 else dist.recv(x, 0)", NODES, [1, 1, 0, 0]),
    "between nodes": ("if r in (0, 2): dist.send(x, 2) if r == 0 else dist.recv(x, 0)", NODES, [10, 0, 10, 0]),
    "a shared uplink": ("dist.send(x, r + 2) if r < 2 else dist.recv(x, r - 2)", NODES, [10, 20, 10, 20]),
    "an uplink each": (
        "dist.send(x, r + 2) if r < 2 else dist.recv(x, r - 2)", replace(NODES, uplinks_per_node=2), [10, 10, 10, 10],
    ),
    "a ring over one uplink": ("dist.all_reduce(x)", SLOW_UPLINKS, [2 * 3 * (1 + 4 * 4)] * 4),
    "a ring over each uplink": (
        "dist.all_reduce(x)", replace(SLOW_UPLINKS, uplinks_per_node=2), [2 * 3 * (1 + 4 * 4 / 2)] * 4,
    ),
    "overlap": ("w = dist.all_reduce(x[:3], async_op=True); compute(10); w.wait()", LINK, [12, 12, 12]),
}  # fmt: skip


@pytest.mark.parametrize(("body", "wires", "expected"), TIMES.values(), ids=TIMES.keys())
def test_virtual_time(engines: Engines, body: str, wires: Network, expected: list[float]) -> None:
    run = simulate(engines, body, len(expected), wires)
    assert sorted(finish(run)) == pytest.approx(sorted(expected))


def test_a_slow_rank_and_a_slow_link(engines: Engines) -> None:
    body = "compute(1)\nif r == 0: dist.send(x, 1)\nif r == 1: dist.recv(x, 0)"
    assert finish(simulate(engines, body, 2, LINK, "slow:0x3")) == [3 + 27, 3 + 27]
    assert finish(simulate(engines, body, 2, LINK, "slow:0-1x2")) == [1 + 18, 1 + 18]


def test_a_delayed_message_comes_late_and_its_sender_goes_on(engines: Engines) -> None:
    body = "for _ in range(2): dist.send(x, 1) if r == 0 else dist.recv(x, 0)"
    assert finish(simulate(engines, body, 2, LINK, "delay:0-1=100@op=1")) == [118, 118]


def test_a_partition_holds_messages_until_it_heals(engines: Engines) -> None:
    body = "dist.send(x, 1) if r == 0 else dist.recv(x, 0)"
    assert finish(simulate(engines, body, 2, LINK, "partition:0|1@t=0..100")) == [109, 109]
    assert finish(simulate(engines, "dist.barrier()", 2, LINK, "partition:0|1@t=0..100")) == [101, 101]
    assert simulate(engines, body, 2, LINK, "partition:0|1").ending == "deadlocked"


KILLED = {
    "at an operation, peers see it": (
        "dist.send(x, 1) if r == 0 else dist.recv(x, 0)", "kill:0@op=1", "crashed",
        "rank 0 was killed at its operation 1. Rank 1 raised PeerGone",
    ),
    "silently": (
        "dist.send(x, 1) if r == 0 else dist.recv(x, 0)", "kill:0@op=1,silent", "crashed",
        "rank 0 was killed at its operation 1. Rank 1 waits to receive 16 bytes from rank 0",
    ),
    "at a time, while it computes": (
        "if r == 0: compute(10); dist.send(x, 1)\nelse: dist.recv(x, 0)", "kill:0@t=5", "crashed",
        "rank 0 was killed at 5 s",
    ),
    "in what it computes, halfway, and what has no name does not count": (
        "if r == 0: compute(9); compute(2, 'A'); compute(2, 'B'); dist.send(x, 1)\nelse:\n"
        "    try: dist.recv(x, 0)\n    except RuntimeError: assert time.time() % 100 == 12; raise",
        "kill:0@compute=2", "crashed", "rank 0 was killed in its compute() 2. Rank 1 raised PeerGone",
    ),
    "what it had not begun to send comes from nobody": (
        "if r == 0: w = dist.isend(x, 1); compute(2, 'A'); w.wait()\nelse:\n    compute(5)\n"
        "    try: dist.recv(x)\n    except RuntimeError: dist.recv(x)",
        "kill:0@compute=1", "crashed", "Rank 1 waits for a message from any rank",
    ),
    "in a collective": (
        "dist.all_reduce(x); dist.all_reduce(x)", "kill:1@op=2", "crashed", "Rank 0 raised PeerGone: Connection closed",
    ),
    "nobody needs it": ("compute(r)", "kill:1@t=0.5", "finished", "The others went on without it"),
    "a rank that catches it": (
        "try: dist.barrier()\nexcept RuntimeError: compute(1)", "kill:1@t=0", "finished", "went on without it",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("body", "fault", "ending", "says"), KILLED.values(), ids=KILLED.keys())
def test_a_killed_rank(engines: Engines, body: str, fault: str, ending: str, says: str) -> None:
    run = simulate(engines, body, 2, LINK, fault)
    found = run.calls[0].diagnoses if run.calls else run.diagnoses
    assert (run.ending, says in found[0].message) == (ending, True), found[0].message


def test_a_lost_message_is_named(engines: Engines) -> None:
    run = simulate(engines, "dist.send(x, 1) if r == 0 else dist.recv(x, 0)", 2, LINK, "drop:0-1@op=1")
    assert "message 1 from rank 0 to rank 1 was lost" in run.diagnoses[0].message


def test_an_eager_message_that_nobody_receives_is_named(engines: Engines) -> None:
    run = simulate(engines, "if r == 0: dist.send(x, 1)", 2, Network(eager_bytes=64))
    assert run.finished
    assert "nobody received the message" in run.calls[0].diagnoses[0].message


def test_tracked_memory_is_counted_while_it_lives(engines: Engines) -> None:
    body = "a = track(torch.zeros(100)); b = track(torch.zeros(50))\ndel a\nc = track([torch.zeros(20 * r)])"
    assert simulate(engines, body, 2).calls[0].peak_bytes == (600, 600)


BAD = {
    "gigabit": "no network is called 'gigabit'",
    "alpha=-1": "'-1' is not a time",
    "alpha=fast": "'fast' is not a time",
    "ethernet-1g:speed=2": "'speed=2' is not one of",
    "rounds:alpha": "'alpha' is not one of",
    "ranks_per_node=x": "'x' is not a whole number",
    "8xh100:uplinks_per_node=9": "at most one for each of its ranks",
    "uplinks_per_node=0": "at least 1 uplink",
}


@pytest.mark.parametrize(("text", "says"), BAD.items(), ids=BAD.keys())
def test_a_bad_network_is_one_sentence(text: str, says: str) -> None:
    with pytest.raises(BadNetwork, match=says):
        network.parse(text)


BAD_FAULTS = {
    "burn:1": "no fault is called 'burn'",
    "kill:1": "write kill:2@op=5",
    "kill:9@op=1": "names rank 9, but the world has ranks 0 to 3",
    "slow:1x0": "is not a slowdown",
    "partition:0,1|1,2": "has the same rank on both sides",
    "kill:1@t=soon": "'soon' is not a time",
}


@pytest.mark.parametrize(("text", "says"), BAD_FAULTS.items(), ids=BAD_FAULTS.keys())
def test_a_bad_fault_is_one_sentence(text: str, says: str) -> None:
    with pytest.raises(BadNetwork, match=says):
        faults.parse(text, 4)


@pytest.mark.parametrize("name", network.PRESETS)
def test_presets_survive_json(name: str) -> None:
    assert Network.from_json(network.parse(name).to_json()) == network.PRESETS[name][0]


def test_a_partition_between_nodes_gives_the_uplinks_back(engines: Engines) -> None:
    body = "if r in (0, 2): dist.send(x, 2) if r == 0 else dist.recv(x, 0)"
    assert finish(simulate(engines, body, 4, NODES, "partition:0,1|2,3@t=0..100")) == [110, 0, 110, 0]


def test_an_uneven_exchange_takes_as_long_whoever_comes_last(engines: Engines) -> None:
    body = (
        "size = 8 if r else 1\ngive, take = torch.zeros(n * size), torch.zeros(9)\n"
        "compute({late})\ndist.all_to_all_single(take, give, [1, 8], [size] * n)"
    )
    first, last = (finish(simulate(engines, body.format(late=late), 2)) for late in ("r", "1 - r"))
    assert first == last
