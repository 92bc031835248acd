"""Scripts about what a majority has: acknowledged messages, messages that only few nodes have, committed offsets."""

from __future__ import annotations

from grader.exercises.common.scenes import ARRIVED, Script, has_answer, ok
from grader.exercises.replicated_log.scene import KEY, TAKEN_OVER, Logs
from grader.nodes.clients import Asked

LONG = 2.4  # seconds in which a node might give up, and that a client waits at least


def _one_of(scene: Logs, hub: str, rest: list[str], at_hub: bool) -> str:
    return hub if at_hub else rest[0]


# ---- acknowledged


def acknowledged_by_few(scene: Logs, at_hub: bool) -> Script:
    """All messages that hold a sent one are lost, in a cluster of five but those to one other node. If it is acknowledged
    all the same, the nodes that have it are away from then on."""
    hub, rest = yield from scene.led()
    node, message = _one_of(scene, hub, rest, at_hub), scene.fresh()
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
        for name in there:
            yield from scene.consume(name)
    yield from scene.ended()


def acknowledged_and_gone(scene: Logs, at_hub: bool, both: bool) -> Script:
    """The node that acknowledges a message crashes in that step, before anybody hears that it is done. The others are asked
    at once. With `both`, the node that spread it crashes as well (of five)."""
    hub, rest = yield from scene.led()
    node, message = _one_of(scene, hub, rest, at_hub), scene.fresh()
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
    for name in there:
        yield from scene.consume(name)
    yield from scene.ended()


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
    for name in (lacks, has):
        yield from scene.consume(name)
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


def two_sides(scene: Logs, at_hub: bool) -> Script:
    """A node is cut off and both sides are asked; with five, together with another one."""
    hub, rest = yield from scene.led()
    away = [_one_of(scene, hub, rest, at_hub)]
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
    """A node that is cut off gets messages and is polled; with five, another one is cut off with it. The others go on with
    other messages."""
    hub, rest = yield from scene.led()
    node = _one_of(scene, hub, rest, at_hub)
    away = [node, *[name for name in rest if name != node][: (len(scene.names) - 3) // 2]]
    there = [name for name in scene.names if name not in away]
    scene.cut(away, there)
    scene.send(node)
    for _ in range(6):
        yield from scene.pause(0.1)
        for name in away:
            scene.poll(name)
    scene.send(away[-1])
    yield from scene.pause(TAKEN_OVER)
    for name in away:
        scene.poll(name)
    yield from scene.served(*(scene.send(name) for name in there))
    for name in there:
        yield from scene.consume(name)
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
    node, message = _one_of(scene, hub, rest, at_hub), scene.fresh()
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
    for name in there:
        yield from scene.consume(name)
    yield from scene.ended()


def one_is_late(scene: Logs, at_hub: bool, lost: bool) -> Script:
    """The messages that hold one sent message are late, or lost and its nodes crash, while those of the next ones pass: polls
    must neither go past it and show it later, nor wait for what never comes."""
    hub, rest = yield from scene.led()
    node, late = _one_of(scene, hub, rest, at_hub), scene.fresh()
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
        for name in there:
            yield from scene.consume(name)
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


# ---- committed offsets


def maximum(scene: Logs) -> Script:
    """Commits of lower and higher offsets at all nodes, one after another and at once; each is listed everywhere."""
    yield from scene.pause(TAKEN_OVER)
    names = scene.others()
    for offset in (0, 7, 3, 0, 12, 11):
        yield from scene.served(scene.commit(names[offset % len(names)], offset))
        yield from scene.served(*(scene.list(name) for name in names))
    for start in (20, 40, 30):
        asked: list[Asked] = [scene.commit(name, start + place) for place, name in enumerate(names)]
        asked += [scene.list(name) for name in names]
        yield from scene.served(*asked)
        yield from scene.served(*(scene.list(name) for name in names))


def older_commit_late(scene: Logs, at_hub: bool) -> Script:
    """What nodes tell each other of a commit arrives once more, or for the first time, when a higher one is done."""
    hub, rest = yield from scene.led()
    node, other = _one_of(scene, hub, rest, at_hub), rest[-1]
    key = scene.fresh()
    scene.held["older"] = scene.holding(key)
    scene.commit(node, 3, key)
    yield from scene.pause(0.35)
    scene.held.pop("older")  # what was kept stays under way
    yield from scene.pause(TAKEN_OVER)
    yield from scene.served(scene.commit(other, 8, key))
    yield from scene.served(scene.list(node, key), scene.list(other, key))
    scene.let_go("older")
    yield from scene.pause(ARRIVED)
    for _ in range(6):
        for name in scene.names:
            scene.list(name, key)
        yield from scene.pause(0.2)
    yield from scene.served(*(scene.list(name, key) for name in scene.names))


def cut_off_and_listed(scene: Logs, at_hub: bool) -> Script:
    """A node that is cut off is asked for committed offsets while the others commit greater ones."""
    hub, rest = yield from scene.led()
    node = _one_of(scene, hub, rest, at_hub)
    yield from scene.served(scene.commit(node, 1))
    there = [name for name in scene.names if name != node]
    scene.cut((node,), there)
    for number in range(14):
        for name in there:
            scene.commit(name, 2 + number)
        for name in scene.names:
            scene.list(name)
        yield from scene.pause(0.25)
    yield from scene.served(scene.commit(there[0], 50))
    for _ in range(4):
        scene.list(node)
        yield from scene.pause(0.3)
    scene.whole()
    for _ in range(6):
        scene.list(node)
        yield from scene.pause(0.1)
    yield from scene.pause(TAKEN_OVER)
    yield from scene.served(*(scene.list(name) for name in scene.names))


def committed_and_gone(scene: Logs, at_hub: bool) -> Script:
    """The node that answers a commit crashes in that step. The others are asked for committed offsets at once."""
    hub, rest = yield from scene.led()
    node = _one_of(scene, hub, rest, at_hub)
    asked = scene.commit(node, 5)
    off = scene.crash_with_answer(asked)
    yield has_answer(asked), LONG
    off()
    yield from scene.pause(ARRIVED)
    scene.sim.heal()
    there = [name for name in scene.names if scene.sim.places[name].up]
    for _ in range(45):
        for name in there:
            scene.list(name)
        yield from scene.pause(0.07)
    yield from scene.served(*(scene.list(name) for name in there))
    scene.whole()
    yield from scene.pause(TAKEN_OVER)
    yield from scene.served(*(scene.list(name) for name in scene.names))


def listed_before_it_is_safe(scene: Logs, at_hub: bool) -> Script:
    """A node that is cut off gets a commit, and is asked for it. What it shows others must show, too."""
    hub, rest = yield from scene.led()
    node = _one_of(scene, hub, rest, at_hub)
    there = [name for name in scene.names if name != node]
    scene.cut((node,), there)
    scene.commit(node, 6)
    for _ in range(5):
        yield from scene.pause(0.1)
        scene.list(node)
    yield from scene.pause(TAKEN_OVER)
    yield from scene.served(*(scene.list(name) for name in there))
    scene.whole()
    yield from scene.pause(TAKEN_OVER)
    yield from scene.served(*(scene.list(name) for name in scene.names))


def committed_by_few(scene: Logs, at_hub: bool) -> Script:
    """Two of five nodes are cut off, and one of them gets a commit. If it is answered, the others must know it."""
    hub, rest = yield from scene.led()
    node = _one_of(scene, hub, rest, at_hub)
    friend, *there = scene.others(node)
    scene.cut((node, friend), there)
    scene.commit(node, 6)
    for _ in range(5):
        yield from scene.pause(0.1)
        scene.list(friend)
    yield from scene.pause(TAKEN_OVER)
    yield from scene.served(*(scene.list(name) for name in there))
    scene.whole()
    yield from scene.pause(TAKEN_OVER)
    yield from scene.served(*(scene.list(name) for name in scene.names))


def listed_from_one(scene: Logs, at_hub: bool) -> Script:
    """One of five nodes has a commit that reached no other. A node that reaches it and one more lists it, and is cut off
    with it in the step in which it answers: the other three must know the offset then."""
    hub, rest = yield from scene.led()
    node = _one_of(scene, hub, rest, at_hub)
    alone, third, *away = scene.others(node)
    yield from scene.served(scene.commit(node, 1))
    scene.cut((alone,), (node, third), away)
    scene.commit(alone, 6)
    yield from scene.pause(0.3)
    scene.cut((alone,), (third, *away))
    scene.sim.partition((node,), away)
    asked = scene.list(node)
    off = scene.crash_with_answer(asked)
    yield has_answer(asked), LONG
    off()
    scene.cut((alone, node), (third, *away))
    for _ in range(45):
        for name in (third, *away):
            scene.list(name)
        yield from scene.pause(0.07)
    yield from scene.served(*(scene.list(name) for name in (third, *away)))
    scene.whole()
    yield from scene.pause(TAKEN_OVER)
    yield from scene.served(*(scene.list(name) for name in scene.names))
