"""Scripts about committed offsets: the greatest one, at every node, also after cuts and crashes."""

from __future__ import annotations

from grader.exercises.common.scenes import ARRIVED, Script, has_answer, ok
from grader.exercises.replicated_log.agreeing import LONG, one_of
from grader.exercises.replicated_log.scene import TAKEN_OVER, Logs
from grader.nodes.clients import Asked


def _listed_when_whole(scene: Logs) -> Script:
    """All nodes are up and connected again, and each of them is asked."""
    scene.whole()
    yield from scene.pause(TAKEN_OVER)
    yield from scene.served(*(scene.list(name) for name in scene.names))


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
    node, other = one_of(scene, hub, rest, at_hub), rest[-1]
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
    node = one_of(scene, hub, rest, at_hub)
    yield from scene.served(scene.commit(node, 1))
    there = [name for name in scene.names if name != node]
    scene.cut((node,), there)
    asked: list[Asked] = []
    for number in range(50):  # as soon as the others have committed something
        if any(ok(one) for one in asked):
            scene.list(node)
            break
        asked.append(scene.commit(there[number % len(there)], 2))
        yield from scene.pause(0.02)
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
    node = one_of(scene, hub, rest, at_hub)
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
    yield from _listed_when_whole(scene)


def listed_before_it_is_safe(scene: Logs, at_hub: bool) -> Script:
    """A node that is cut off gets a commit, and a lower one, and is asked for it. What it shows or answers others must show,
    too."""
    hub, rest = yield from scene.led()
    node = one_of(scene, hub, rest, at_hub)
    there = [name for name in scene.names if name != node]
    scene.cut((node,), there)
    for number in range(5):
        if number < 2:
            scene.commit(node, 6 - number)
        yield from scene.pause(0.1)
        scene.list(node)
    yield from scene.pause(TAKEN_OVER)
    yield from scene.served(*(scene.list(name) for name in there))
    yield from _listed_when_whole(scene)


def committed_by_few(scene: Logs, at_hub: bool) -> Script:
    """Two of five nodes are cut off, and one of them gets a commit. If it is answered, the others must know it."""
    hub, rest = yield from scene.led()
    node = one_of(scene, hub, rest, at_hub)
    friend, *there = scene.others(node)
    scene.cut((node, friend), there)
    scene.commit(node, 6)
    for _ in range(5):
        yield from scene.pause(0.1)
        scene.list(friend)
    yield from scene.pause(TAKEN_OVER)
    yield from scene.served(*(scene.list(name) for name in there))
    yield from _listed_when_whole(scene)


def listed_from_one(scene: Logs, at_hub: bool) -> Script:
    """One of five nodes has a commit that reached no other. A node that reaches it and one more lists it, and is cut off
    with it in the step in which it answers: the other three must know the offset then."""
    hub, rest = yield from scene.led()
    node = one_of(scene, hub, rest, at_hub)
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
