"""Scripts about who goes on when the node that spread messages is gone: it must have all that was acknowledged, and what an
earlier leader says late, or once more, must take nothing away.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from grader.exercises.common.scenes import ARRIVED, Script, carries, has_answer, ok
from grader.exercises.replicated_log.agreeing import LONG
from grader.exercises.replicated_log.scene import TAKEN_OVER, Logs
from grader.trace.story import Sent


def known_by_one_of_two(scene: Logs) -> Script:
    """A message is acknowledged that one of two followers has, and the node that spread it crashes for good. The follower
    that has it speaks only when it is spoken to, so that the other one tries to lead."""
    hub, (has, lacks) = yield from scene.led()
    message = scene.fresh()
    scene.dropped["it"] = scene.holding(message, lacks)
    asked = scene.send(hub, message)
    yield has_answer(asked), LONG
    yield from scene.gone(hub)
    scene.dropped.clear()
    scene.dropped["mute"] = lambda sent: sent.src == has and not scene.answering(sent)
    for _ in range(6):
        scene.send(lacks)
        scene.poll(lacks)
        yield from scene.pause(0.4)
    scene.dropped.clear()
    yield from scene.pause(TAKEN_OVER)
    yield from scene.served(scene.send(lacks), scene.send(has))
    yield from scene.consume((lacks, has))
    yield from scene.ended()


def old_and_long(scene: Logs) -> Script:
    """The node that leads is cut off and gets many messages; the others acknowledge one, and the one that spread it crashes
    for good. The other one of them speaks only when it is spoken to, so that the old one tries to lead."""
    old, there = yield from scene.led()
    scene.cut((old,), there)
    for _ in range(8):
        scene.send(old)
    yield from scene.pause(TAKEN_OVER)
    message = scene.fresh()
    asked = scene.send(there[0], message)
    yield from scene.served(asked)
    hub = scene.spreader(message, there[0])
    last = next(name for name in there if name != hub)
    yield from scene.gone(hub)
    scene.dropped["mute"] = lambda sent: sent.src == last and not scene.answering(sent)
    for _ in range(6):
        scene.send(old)
        scene.poll(old)
        yield from scene.pause(0.4)
    scene.dropped.clear()
    yield from scene.pause(TAKEN_OVER)
    yield from scene.served(scene.send(old), scene.send(last))
    yield from scene.ended()


def copies_arrive(scene: Logs) -> Script:
    """One of two followers is down while messages are acknowledged. The node that spread them crashes for good, and what
    it sent to the other follower arrives there once more, the oldest last."""
    hub, (has, lacks) = yield from scene.led()
    scene.sim.crash(lacks)
    yield from scene.pause(ARRIVED)
    sent: list[Sent] = []
    scene.seen.append(lambda m: sent.append(m) if m.src == hub and m.dst == has else None)
    for _ in range(3):
        asked = scene.send(hub)
        yield has_answer(asked), LONG
    yield from scene.gone(hub)
    copies = [message for message in sent if message.fate == "delivered"][-20:]
    for place, message in enumerate(reversed(copies)):
        scene.sim.late(message, 0.001 + 0.0005 * place)
    yield from scene.pause(0.02)
    scene.sim.restart(lacks)
    yield from scene.pause(TAKEN_OVER)
    yield from scene.served(scene.send(has), scene.send(lacks))
    yield from scene.consume((has, lacks))
    yield from scene.ended()


def old_leader_arrives(scene: Logs) -> Script:
    """What a node that led sent of a message is under way for long, and the node is cut off. The others acknowledge another
    message; the one that spread it crashes for good, and then the old messages arrive at the third."""
    old, there = yield from scene.led()
    first, message = scene.fresh(), scene.fresh()
    scene.held["old"] = lambda sent: sent.src == old and carries(sent, first)
    scene.send(old, first)
    yield from scene.pause(0.15)
    scene.cut((old,), there)
    yield from scene.pause(TAKEN_OVER)
    yield from scene.served(scene.send(there[0], message))
    hub = scene.spreader(message, there[0])
    last = next(name for name in there if name != hub)
    yield from scene.pause(0.2)
    yield from scene.gone(hub)
    scene.let_go("old", lambda sent: sent.dst == last and sent.sent < scene.sim.time - TAKEN_OVER)
    yield from scene.pause(ARRIVED)
    yield from scene.served_later(old, last)
    yield from scene.consume((old, last))
    yield from scene.ended()


def earlier_term(scene: Logs) -> Script:
    """Figure 8 of the Raft paper. A leader brings a message to one of four others. Another node leads without it, and
    brings a second message to nobody. Then the first leads again, with a majority, and brings the first message to it. If
    that is acknowledged, it crashes, and the other node, whose last entry is of a later term, leads with that majority."""
    first, (one, *rest) = yield from scene.led()
    other, *two = rest
    early, second = scene.fresh(), scene.fresh()
    scene.cut((first, one), rest)
    asked = scene.send(first, early)
    yield from scene.pause(ARRIVED)
    _only_answer(scene, two)
    scene.dropped["second"] = scene.holding(second)
    scene.send(other, second)
    yield partial(_has_sent_to, scene, other, second, two), 4.0
    scene.cut((other,), (first, one, *two))
    _only_answer(scene, (one, *two))
    yield has_answer(asked), 5.0
    if ok(asked):
        yield from scene.gone(first)
        scene.dropped.pop("second")
        yield (lambda: set(scene.reached(second)) >= {one, *two}), 6.0
    scene.dropped.clear()
    scene.sim.heal()
    if ok(asked):
        there = [name for name in scene.names if name != first]
        yield from scene.served_later(*there)
        yield from scene.consume(there)
    yield from scene.ended()


def _only_answer(scene: Logs, nodes: Sequence[str]) -> None:
    """These nodes are heard only when they are spoken to, so that none of them can lead."""
    scene.dropped["mute"] = lambda sent: sent.src in nodes and sent.dst in scene.names and not scene.answering(sent)


def _has_sent_to(scene: Logs, node: str, message: str, others: Sequence[str]) -> bool:
    told = {sent.dst for sent in scene.sim.story.sent[-400:] if sent.src == node and carries(sent, message)}
    return told.issuperset(others)
