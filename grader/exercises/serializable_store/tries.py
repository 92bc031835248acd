"""A reader whose reads do not fit and are asked for anew, while answers to its first questions are still under way."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

from grader.exercises.common.nodes import names
from grader.exercises.common.scenes import Rule, Script, Staged, has_answer
from grader.exercises.serializable_store.plans import Drawn, plan, read
from grader.nodes.bench import NodeBench
from grader.nodes.clients import Asked
from grader.nodes.plan import Plan, Played

READER, WRITER = "n3", "n4"  # n1 and n2 each have a key
BEGIN = 1.0  # seconds
LONG = 1.0  # seconds that a writer may take; it waits for longer where the reader holds its keys
SOON = 0.3  # seconds in which a node hears, answers, and hears again


def earlier_answers(rng: random.Random, shape: None, seed: int) -> Plan:
    """What `staged` does with is one key on n1, one on n2, and three transactions."""
    drawn = Drawn(rng, names(4), seed)
    for text, node in (("x", "n1"), ("y", "n2")):
        drawn.named(text, node)
    label = f"{READER} reads x on n1 and y on n2 while others append; n1's answers to its first questions are late"
    return plan(drawn, {}, 12.0, label)


def staged(bench: NodeBench) -> Callable[[Played], None]:
    """Prepares such a run: the script decides when each message between the reader and the owners arrives."""

    def prepare(played: Played) -> None:
        scene = played.notes = Staged(played, bench)
        keys = [op[1] for asks in played.plan.asks.values() for ask in asks for op in ask.body["txn"]]
        if len(keys) >= 2:  # else it is a smaller plan that was tried, in which nothing can go wrong
            scene.play(_script(scene, *keys[:2]))

    return prepare


def _between(src: str, dst: str) -> Rule:
    return lambda sent: sent.src == src and sent.dst == dst


def _arrived(scene: Staged, src: str, dst: str, since: float) -> Callable[[], bool]:
    """Whether a message from `src` has arrived at `dst`."""
    return lambda: any(
        sent.src == src and sent.dst == dst and sent.fate == "delivered" and (sent.arrived or 0.0) > since
        for sent in scene.sim.story.sent[-300:]
    )


def _both_answered(scene: Staged) -> bool:
    return all(_arrived(scene, owner, READER, BEGIN)() for owner in ("n1", "n2"))


def _txn(scene: Staged, node: str, *ops: list[object]) -> Asked:
    return scene.request(node, {"type": "txn", "txn": list(ops)})


def _script(scene: Staged, x: str, y: str) -> Script:
    """Between the reader's first questions and its next ones y changes, so that it begins anew; what n1 answered to the next
    ones is still under way. It reads x anew; then x and y change together, and it reads y. What it asks n1 after that is
    late, and what n1 had answered long before arrives."""
    yield from scene.pause(BEGIN)
    asked = _txn(scene, READER, read(x), read(y))
    both = partial(_both_answered, scene)
    scene.held["early"] = lambda sent: _between("n1", READER)(sent) and both()
    scene.held["again"] = lambda sent: _between(READER, "n2")(sent) and both()
    yield both, SOON
    yield has_answer(_txn(scene, WRITER, ["append", y, 1])), LONG
    since = scene.sim.time
    scene.let_go("again")
    scene.held["anew"] = _between(READER, "n2")
    yield _arrived(scene, "n2", READER, since), SOON
    scene.held.pop("early")  # what was kept stays under way
    since = scene.sim.time
    yield _arrived(scene, "n1", READER, since), SOON
    yield has_answer(_txn(scene, WRITER, ["append", x, 2], ["append", y, 3])), LONG
    since = scene.sim.time
    scene.held["last"] = _between(READER, "n1")
    scene.let_go("anew")
    yield _arrived(scene, "n2", READER, since), SOON
    scene.let_go("early")
    yield has_answer(asked), SOON
    scene.let_go("last")
    yield from scene.pause(scene.played.plan.until)  # the run ends when all has been read
