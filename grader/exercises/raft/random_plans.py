"""Random runs: clients that read, write and compare-and-set while nodes crash, stand still and are cut off, the leader more
often than others."""

from __future__ import annotations

import random
from collections.abc import Iterator

from grader.exercises.common.nodes import names
from grader.nodes.bench import NodeBench
from grader.nodes.clients import Ask
from grader.nodes.network import Network
from grader.nodes.plan import Mishap, Plan
from grader.nodes.sim import cluster

RUNS = 8
TRIES = 30  # runs, to make a plan smaller
TROUBLED = 5.0  # seconds of faults, after which all is whole
WHY_RANDOM = "A read or a confirmed write must take effect once, between its request and its answer."


def plans(bench: NodeBench, kind: str) -> Iterator[Plan]:
    """Plans for 3 and 5 nodes, every second one with drops and duplicates."""
    for number, seed in enumerate(bench.seeds("linearizable", RUNS)):
        rng = random.Random(f"plan {seed}")
        size = 5 if number % 4 == 3 else 3
        noisy = number % 2 == 0
        network = Network(drop=0.05, duplicate=0.15) if noisy else Network()
        yield Plan(
            cluster(size, kind), _asks(rng, names(size)), _mishaps(rng, names(size)), network, seed, begin=0.6, healed=TROUBLED,
            until=TROUBLED + 5.5, wait=2.0,
            label="drops and duplicates" if noisy else "cuts and crashes",
        )  # fmt: skip


def _asks(rng: random.Random, nodes: list[str]) -> dict[str, tuple[Ask, ...]]:
    """Four clients; each value is written once, so that a read tells whose write it saw."""
    found = {}
    for client in range(1, 5):
        asks, known = [], f"c{client}.0"
        for number in range(16):
            key = rng.choice("xxy")
            node = rng.choice(["leader", "leader", "leader", "old", "other", rng.choice(nodes)])
            value = f"c{client}.{number}"
            which = rng.random()
            body: dict[str, object]
            if which < 0.45:
                body = {"type": "read", "key": key}
            elif which < 0.85:
                body, known = {"type": "write", "key": key, "value": value}, value
            else:
                body = {"type": "cas", "key": key, "from": known, "to": value}
            asks.append(Ask(node, body, rng.uniform(0.02, 0.45)))
        asks += [Ask("leader", {"type": "read", "key": key}, 1.2) for key in "xy"] * 2
        found[f"c{client}"] = tuple(asks)
    return found


def _mishaps(rng: random.Random, nodes: list[str]) -> tuple[Mishap, ...]:
    found: list[Mishap] = []
    groups: tuple[tuple[str, ...], ...]
    time = 0.8
    while True:
        end = time + rng.uniform(0.3, 1.2)
        if end > TROUBLED - 0.1:
            return tuple(found)
        what = rng.choice(["partition", "partition", "crash", "crash", "pause", "one-way"])
        if rng.random() < 0.65:
            near = rng.randint(0, (len(nodes) - 3) // 2)
            after = rng.randint(1, 12) if what == "crash" and rng.random() < 0.6 else None
            groups = (("leader", "other")[: near + 1], ("*",)) if what in ("partition", "one-way") else (("leader",),)
            found.append(Mishap(what, time, end, groups, after))
        else:
            order = rng.sample(nodes, len(nodes))
            few = tuple(sorted(order[: (len(nodes) - 1) // 2]))
            groups = (few,) if what in ("crash", "pause") else (few, tuple(sorted(set(nodes) - set(few))))
            found.append(Mishap(what, time, end, groups))
        time = end + rng.uniform(0.05, 0.5)
