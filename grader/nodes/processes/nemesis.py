"""The faults of a run: partitions, kills, pauses; which, when and where is decided beforehand, from the seed.

Kinds of partition are those of Jepsen's nemesis (github.com/jepsen-io/jepsen, jepsen.nemesis: halves, majorities-ring,
bridge, isolated node) and links that carry messages one way only.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from typing import Literal

from grader.nodes import network
from grader.nodes.network import Links, split
from grader.trace.story import Fault


def halves(nodes: Sequence[str]) -> Links:
    """The greater half, and the smaller one."""
    middle = (len(nodes) + 1) // 2
    return split([nodes[:middle], nodes[middle:]])


def isolate(nodes: Sequence[str]) -> Links:
    """One node alone."""
    return split([nodes[:1], nodes[1:]])


def bridge(nodes: Sequence[str]) -> Links:
    """Two groups that meet in one node only."""
    middle = 1 + len(nodes) // 2
    return split([nodes[1:middle], nodes[middle:]])


def ring(nodes: Sequence[str]) -> Links:
    """Every node sees a majority, and no two nodes the same one: its nearest neighbours in a ring."""
    count = len(nodes)
    reach = (count // 2 + 1) // 2  # on each side, so that 2 reach + 1 is a majority
    links = set()
    for (i, one), (j, other) in itertools.permutations(enumerate(nodes), 2):
        if min((i - j) % count, (j - i) % count) > reach:
            links.add((one, other))
    return frozenset(links)


def one_way(nodes: Sequence[str]) -> Links:
    """The second half's messages do not reach the first; the first's reach the second."""
    middle = (len(nodes) + 1) // 2
    return network.one_way(nodes[middle:], nodes[:middle])


PARTITIONS: dict[str, Callable[[Sequence[str]], Links]] = {
    "halves": halves, "isolate": isolate, "bridge": bridge, "ring": ring, "one-way": one_way,
}  # fmt: skip
LEAST_NODES = {"bridge": 3, "ring": 4}  # 2 for the others: with fewer nothing would be cut
KINDS = ("partition", *PARTITIONS, "kill", "kill-all", "pause")
HELP = {
    "partition": "any of the partitions below",
    "halves": "two groups that do not hear each other",
    "isolate": "one node alone",
    "bridge": "two groups that meet in one node only",
    "ring": "every node sees a majority, no two the same",
    "one-way": "messages pass from one half to the other only",
    "kill": "SIGKILL for a minority, started again later",
    "kill-all": "SIGKILL for all nodes",
    "pause": "SIGSTOP for some nodes, SIGCONT later",
}


def plan(kinds: Sequence[str], nodes: Sequence[str], seconds: float, interval: float, seed: int) -> tuple[Fault, ...]:
    """Faults for a run of `seconds`: one at a time, each lasting about `interval`, with about as long between them.

    The last ends before the run does. `kinds` are of KINDS; one that needs more nodes than there are is left out.
    """
    draw = random.Random(f"{seed}/nemesis")
    faults: list[Fault] = []
    time = interval * draw.uniform(0.3, 0.8)
    while kinds:
        end = time + interval * draw.uniform(0.6, 1.4)
        if end >= seconds:
            break
        fault = _draw(draw, draw.choice(list(kinds)), nodes, time, end)
        if fault is not None:
            faults.append(fault)
        time = end + interval * draw.uniform(0.4, 1.2)
    return tuple(faults)


def _draw(draw: random.Random, kind: str, nodes: Sequence[str], start: float, end: float) -> Fault | None:
    order = draw.sample(list(nodes), len(nodes))
    some = draw.randint(1, max(1, (len(nodes) - 1) // 2))
    if kind == "kill-all":
        return Fault("down", start, end, (tuple(nodes),), "killed")
    if kind in ("kill", "pause"):
        who = (tuple(sorted(order[:some], key=list(nodes).index)),)
        return Fault("down", start, end, who, "killed") if kind == "kill" else Fault("pause", start, end, who, "paused")
    possible = [name for name in PARTITIONS if len(nodes) >= LEAST_NODES.get(name, 2)]
    if kind == "partition" and possible:
        kind = draw.choice(possible)
    if kind not in possible:
        return None
    label = f"partition: {kind} {_who(kind, order)}".rstrip()
    what: Literal["one-way", "partition"] = "one-way" if kind == "one-way" else "partition"
    return Fault(what, start, end, (tuple(nodes),), label, tuple(sorted(PARTITIONS[kind](order))))


def _who(kind: str, order: Sequence[str]) -> str:
    """The groups of a partition, in words."""
    middle = (len(order) + 1) // 2
    if kind == "isolate":
        return order[0]
    if kind == "bridge":
        middle = 1 + len(order) // 2
        return f"{_group(order[1:middle])} | {order[0]} | {_group(order[middle:])}"
    if kind == "ring":
        return ""
    return _group(order[:middle]) + (" > " if kind == "one-way" else " | ") + _group(order[middle:])


def _group(nodes: Sequence[str]) -> str:
    return " ".join(sorted(nodes, key=lambda each: (len(each), each)))
