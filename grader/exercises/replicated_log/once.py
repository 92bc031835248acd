"""Scripts about requests that arrive twice, late, or after all: each message is in the log once, and a promise is kept."""

from __future__ import annotations

from functools import partial

from grader.exercises.common.scenes import ARRIVED, Script, carries, has_answer
from grader.exercises.replicated_log.scene import TAKEN_OVER, Logs
from grader.trace.story import Sent


def all_twice(scene: Logs) -> Script:
    """Each message between nodes arrives once more, much later."""
    yield from scene.pause(TAKEN_OVER)

    def look(sent: Sent) -> None:
        if sent.src != sent.dst:
            scene.sim.at(scene.sim.time + scene.rng.uniform(0.1, 1.6), lambda: _again(scene, sent))

    scene.seen.append(look)
    for _ in range(3):
        for name in scene.names:
            scene.send(name)
            scene.send(name, "the same")
            scene.commit(name, scene.rng.randint(1, 49))
        yield from scene.pause(0.8)
        for name in scene.names:
            scene.poll(name)
            scene.list(name)
    scene.seen.remove(look)
    yield from scene.pause(2.0)
    yield from scene.ended()


def _again(scene: Logs, sent: Sent) -> None:
    if sent.fate == "delivered" and scene.sim.places[sent.dst].up:
        scene.sim.late(sent, 0.001)


def answers_lost(scene: Logs, at_hub: bool) -> Script:
    """For a while nothing reaches the asked node, so that it does not hear what became of its request."""
    hub, rest = yield from scene.led()
    for number in range(3):
        node = hub if at_hub else rest[number % len(rest)]
        message = scene.fresh()
        asked = scene.send(node, message)
        yield partial(_has_told, scene, node, message), 0.5
        scene.dropped["answers"] = partial(_to, node)
        yield has_answer(asked), (0.6, 1.2, 2.2)[number]
        scene.dropped.clear()
        yield has_answer(asked), 2.0
        yield from scene.pause(0.3)
        hub = scene.spreader(message, hub)
        rest = scene.others(hub)
    yield from scene.ended()


def _has_told(scene: Logs, node: str, message: str) -> bool:
    return any(sent.src == node and carries(sent, message) for sent in scene.sim.story.sent[-50:])


def _to(node: str, sent: Sent) -> bool:
    return sent.dst == node


def spreader_dies(scene: Logs, reached: int) -> Script:
    """A node forwards a request. The node that spreads it crashes when it has reached some others, and the request is
    handed in again elsewhere."""
    hub, rest = yield from scene.led()
    node, message = rest[0], scene.fresh()
    scene.send(node, message)
    yield (lambda: len({s.dst for s in scene.sim.story.sent if s.src == hub and carries(s, message)}) >= reached), 1.0
    yield from scene.pause(ARRIVED if reached > 1 else 0.0)
    scene.sim.crash(hub)
    yield from scene.pause(TAKEN_OVER + 0.5)
    there = [name for name in scene.names if name != hub]
    yield from scene.served(*(scene.send(name) for name in there))
    yield from scene.ended()


def late_after_all(scene: Logs, at_hub: bool, seconds: float) -> Script:
    """All messages that hold a sent one are under way for long, and arrive in the end."""
    hub, rest = yield from scene.led()
    node, message = hub if at_hub else rest[0], scene.fresh()
    scene.held["it"] = scene.holding(message)
    asked = yield from scene.sent_in_silence(hub, node, message)
    yield has_answer(asked), seconds
    yield from scene.pause(max(0.0, asked.sent + seconds - scene.sim.time))
    scene.let_go("it")
    for _ in range(5):
        yield from scene.pause(0.2)
        for name in scene.names:
            scene.poll(name)
    yield from scene.ended()


def refused_and_kept(scene: Logs, at_hub: bool) -> Script:
    """A request is spread, and then the asked node is cut off for long: an error must not promise that nothing happens."""
    hub, rest = yield from scene.led()
    node, message = hub if at_hub else rest[0], scene.fresh()
    there = [name for name in scene.names if name != node]
    asked = scene.send(node, message)
    scene.commit(node, 77)
    yield (lambda: bool(scene.reached(message) - {node})), 1.0
    scene.cut((node,), there)
    yield has_answer(asked), 4.5
    scene.whole()
    yield from scene.ended()
    yield from scene.served(*(scene.list(name) for name in scene.names))


def equal_messages(scene: Logs) -> Script:
    """The same message is sent again and again, by different clients at different nodes, also while nodes restart."""
    hub, rest = yield from scene.led()
    yield from scene.served(*(scene.send(name, "same") for name in scene.names))
    yield from scene.served(*(scene.send(hub, "same") for _ in range(3)))
    scene.sim.crash(rest[0])
    yield from scene.pause(0.1)
    scene.sim.restart(rest[0])
    yield from scene.pause(TAKEN_OVER)
    yield from scene.served(*(scene.send(name, "same") for name in scene.names))
    yield from scene.ended()
