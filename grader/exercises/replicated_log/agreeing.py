"""Scripts about what a majority has: acknowledged messages, and messages that only few nodes have."""

from __future__ import annotations

from grader.exercises.common.scenes import ARRIVED, Script, has_answer, ok
from grader.exercises.replicated_log.scene import KEY, TAKEN_OVER, Logs

LONG = 2.4  # seconds in which a node might give up, and that a client waits at least


def one_of(scene: Logs, hub: str, rest: list[str], at_hub: bool) -> str:
    return hub if at_hub else rest[0]


# ---- acknowledged


def acknowledged_by_few(scene: Logs, at_hub: bool) -> Script:
    """All messages that hold a sent one are lost, in a cluster of five but those to one other node. If it is acknowledged
    all the same, the nodes that have it are away from then on."""
    hub, rest = yield from scene.led()
    node, message = one_of(scene, hub, rest, at_hub), scene.fresh()
    also = [name for name in (*rest, hub) if name != node][: (len(scene.names) - 3) // 2]
    scene.dropped["it"] = lambda sent: scene.holding(message)(sent) and sent.dst not in (*also, node)
    asked = scene.send(node, message)
    yield has_answer(asked), LONG
    if ok(asked):
        yield from scene.gone(node, *also)
        scene.dropped.clear()
        there = [name for name in scene.names if scene.sim.places[name].up]
        yield from scene.pause(TAKEN_OVER)
        yield from scene.served(*(scene.send(name) for name in there))
        yield from scene.consume(there)
    yield from scene.ended()


def acknowledged_and_gone(scene: Logs, at_hub: bool, both: bool) -> Script:
    """The node that acknowledges a message crashes in that step, before anybody hears that it is done. The others are asked
    at once. With `both`, the node that spread it crashes as well (of five)."""
    hub, rest = yield from scene.led()
    node, message = one_of(scene, hub, rest, at_hub), scene.fresh()
    asked = scene.send(node, message)
    off = scene.crash_with_answer(asked)
    yield has_answer(asked), LONG
    off()
    if both and node != hub:
        scene.sim.crash(hub)
    yield from scene.pause(ARRIVED)
    scene.sim.heal()
    there = [name for name in scene.names if scene.sim.places[name].up]
    for _ in range(12):
        for name in there:
            scene.send(name)
            scene.poll(name)
        yield from scene.pause(0.25)
    yield from scene.served(*(scene.send(name) for name in there))
    yield from scene.consume(there)
    yield from scene.ended()


def two_sides(scene: Logs, at_hub: bool) -> Script:
    """A node is cut off and both sides are asked; with five, together with another one."""
    hub, rest = yield from scene.led()
    away = [one_of(scene, hub, rest, at_hub)]
    away += [name for name in rest if name not in away][: (len(scene.names) - 3) // 2]
    there = [name for name in scene.names if name not in away]
    scene.cut(away, there)
    for _ in range(8):
        for name in scene.names:
            scene.send(name)
        yield from scene.pause(0.4)
    yield from scene.served(*(scene.send(name) for name in there))
    yield from scene.ended()


# ---- polled


def minority_polled(scene: Logs, at_hub: bool) -> Script:
    """A node that is cut off gets messages and is polled, also after a restart; with five, another one is cut off with it.
    The others go on with other messages."""
    hub, rest = yield from scene.led()
    node = one_of(scene, hub, rest, at_hub)
    away = [node, *[name for name in rest if name != node][: (len(scene.names) - 3) // 2]]
    there = [name for name in scene.names if name not in away]
    scene.cut(away, there)
    scene.send(node)
    for _ in range(6):
        yield from scene.pause(0.1)
        for name in away:
            scene.poll(name)
    scene.send(away[-1])
    yield from scene.pause(ARRIVED)
    for name in away:
        scene.sim.crash(name)
    yield from scene.pause(0.01)
    for name in away:
        scene.sim.restart(name)
    yield from scene.pause(TAKEN_OVER)
    for name in away:
        scene.poll(name)
    yield from scene.served(*(scene.send(name) for name in there))
    yield from scene.consume(there)
    scene.whole()
    for _ in range(8):
        for name in scene.names:
            scene.poll(name)
        yield from scene.pause(0.1)
    yield from scene.ended()


def polled_before_it_is_safe(scene: Logs, at_hub: bool) -> Script:
    """Messages that hold a sent one reach one other node only (of three: none), where it is polled at once; then the nodes
    that have it crash, and the others go on."""
    hub, rest = yield from scene.led()
    node, message = one_of(scene, hub, rest, at_hub), scene.fresh()
    also = [name for name in (*rest, hub) if name != node][: (len(scene.names) - 3) // 2]
    scene.dropped["it"] = lambda sent: scene.holding(message)(sent) and sent.dst not in (*also, node)
    scene.send(node, message)
    for _ in range(8):
        yield from scene.pause(0.1)
        for name in (node, *also):
            scene.poll(name)
    yield from scene.gone(node, *also)
    scene.dropped.clear()
    there = [name for name in scene.names if scene.sim.places[name].up]
    yield from scene.pause(TAKEN_OVER)
    yield from scene.served(*(scene.send(name) for name in there))
    yield from scene.consume(there)
    yield from scene.ended()


def one_is_late(scene: Logs, at_hub: bool, lost: bool) -> Script:
    """The messages that hold one sent message are late, or lost and its nodes crash, while those of the next ones pass: polls
    must neither go past it and show it later, nor wait for what never comes."""
    hub, rest = yield from scene.led()
    node, late = one_of(scene, hub, rest, at_hub), scene.fresh()
    (scene.dropped if lost else scene.held)["it"] = scene.holding(late)
    scene.send(node, late)
    yield from scene.pause(0.02)
    for number in range(4):
        scene.send(scene.names[number % len(scene.names)])
        scene.send(node)
        yield from scene.pause(0.15)
        for name in scene.names:
            scene.poll(name)
    if lost:
        yield from scene.gone(node)
        scene.dropped.clear()
        yield from scene.pause(TAKEN_OVER)
        there = [name for name in scene.names if name != node]
        yield from scene.served(*(scene.send(name) for name in there))
        yield from scene.consume(there)
    else:
        yield from scene.pause(1.0)
        scene.let_go("it")
        for _ in range(8):
            for name in scene.names:
                scene.poll(name)
            yield from scene.pause(0.05)
    yield from scene.ended()


def some_are_missed(scene: Logs, whom: int) -> Script:
    """One node misses every second message for a while, and is polled all the time."""
    hub, rest = yield from scene.led()
    node = [*rest, hub][whom]
    for number in range(8):
        message = scene.fresh()
        if number % 2 == 0:
            scene.dropped[message] = scene.holding(message, node)
        asked = scene.send(hub if node != hub else rest[0], message)
        yield has_answer(asked), 0.4
        yield from scene.pause(0.06)
        scene.poll(node)
        scene.poll(node, {KEY: number})
    scene.dropped.clear()
    for _ in range(10):
        yield from scene.pause(0.05)
        scene.poll(node)
    yield from scene.ended()
