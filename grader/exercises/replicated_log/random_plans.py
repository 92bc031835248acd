"""Runs of clients that send, poll, commit and list while nodes crash and are cut off, and messages are lost, late or
doubled. Then all is whole, and consumers read everything.

All of that was drawn once, for each run by its number. Only messages and offsets are drawn in each grading.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import partial
from typing import Any

from grader.exercises.common.nodes import names, skewed
from grader.exercises.common.scenes import Script
from grader.exercises.replicated_log.scene import Logs
from grader.nodes.bench import NodeBench
from grader.nodes.clients import Ask
from grader.nodes.network import Network
from grader.nodes.plan import Plan, random_mishaps
from grader.nodes.sim import cluster

RUNS = 3, 4, 5, 8
TRIES = 40  # runs, to make a plan smaller
TROUBLED = 8.0  # seconds of faults, after which all is whole


def plans(bench: NodeBench, kind: str) -> Iterator[Plan]:
    """Plans for 3 and 5 nodes, every second one with drops and duplicates."""
    fresh = bench.fresh("random")
    for number in RUNS:
        rng = random.Random(number)
        size = 5 if number % 4 == 3 else 3
        nodes, noisy = names(size), number % 2 == 0
        mishaps = random_mishaps(
            rng, nodes, ("partition", "partition", "crash", "crash"), 1.5, TROUBLED, (0.3, 1.5), (0.05, 0.5)
        )
        first = fresh.randint(1, 50)  # offset that is committed; 0 is a case of its own
        yield Plan(
            skewed(cluster(size, kind), rng), {f"c{n}": _asks(rng, fresh, nodes, n, first) for n in range(1, 5)}, mishaps,
            Network(drop=0.05, duplicate=0.15) if noisy else Network(), number, begin=1.0, healed=TROUBLED, until=90.0, wait=2.0,
            label="random cuts, crashes, drops and duplicates" if noisy else "random cuts and crashes",
        )  # fmt: skip


def _asks(rng: random.Random, fresh: random.Random, nodes: list[str], client: int, known: int) -> tuple[Ask, ...]:
    asks = []
    for number in range(22):
        key, which = rng.choice("kkx"), rng.random()
        body: dict[str, Any]
        if which < 0.5:
            body = {"type": "send", "key": key, "msg": f"message-{client}.{number}-{fresh.randrange(16**4):04x}"}
        elif which < 0.75:
            body = {"type": "poll", "offsets": {key: rng.choice([0, 0, number // 2]), "x": 0}}
        elif which < 0.88:
            known += rng.randint(0, 3)
            body = {"type": "commit_offsets", "offsets": {key: known}}
        else:
            body = {"type": "list_committed_offsets", "keys": ["k", "x"]}
        asks.append(Ask(rng.choice(nodes), body, rng.uniform(0.0, 0.4)))
    return tuple(asks)


def _asked_all(scene: Logs) -> bool:
    asks = scene.played.plan.asks
    return all(len(one.done) == len(asks[name]) and not one.waits for name, one in scene.played.clients.items())


def then_whole(scene: Logs) -> Script:
    """After the faults, and the last request, all is read."""
    yield from scene.pause(TROUBLED)
    scene.sim.network = Network()
    yield partial(_asked_all, scene), 60.0
    yield from scene.ended(("k", "x"))
    yield from scene.served(*(scene.list(name, "k", "x") for name in scene.names))
