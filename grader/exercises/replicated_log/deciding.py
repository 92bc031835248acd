"""Scripts about two nodes that want to lead with the same number."""

from __future__ import annotations

from functools import partial

from grader.exercises.common.scenes import ARRIVED, FAST, Rule, Script, has_answer, ok
from grader.exercises.replicated_log.agreeing import LONG
from grader.exercises.replicated_log.scene import Logs, Shape, holds_a_message, shape
from grader.trace.story import Sent

CALM = 0.3  # seconds in which nodes send all that they send while nobody asks anything


def same_number(scene: Logs, low_first: bool) -> Script:
    """The node that leads is down, and the two others, who cannot hear each other, try to take over: as often, so that
    their numbers are equal. When it is back, both reach it: the one of the lower name first, or (not `low_first`) the
    other. Each that it lets go on brings it a message; the first crashes for good in the step in which it acknowledges its
    own, then the second goes on."""
    third, two = yield from scene.led()
    first, second = sorted(two, reverse=not low_first)
    usual = scene.spreading(third)
    look = partial(_note_shape, usual)
    scene.seen.append(look)
    yield from scene.pause(CALM)
    scene.seen.remove(look)

    def tries(sent: Sent) -> bool:
        return sent.dst == third and shape(sent) not in usual and not holds_a_message(sent)

    scene.dropped["apart"] = lambda sent: {sent.src, sent.dst} == {first, second}
    scene.held["tries"] = tries
    yield from scene.gone(third)
    asked = scene.send(first)
    scene.send(second)
    yield partial(_as_often, scene, first, second), 2 * LONG
    kept = scene.kept.pop("tries", [])
    del scene.held["tries"]
    scene.sim.restart(third)
    last = {sent.src: sent for sent in kept}
    if len(last) == 2:
        scene.hurried["all"] = lambda _: True  # before one of them tries anew
        scene.dropped["mute"] = lambda sent: sent.src == third and not scene.answering(sent)
        for name in two:
            scene.held[name] = partial(_goes_on, name, third, tries)
        scene.sim.late(last[first], FAST)
        scene.sim.late(last[second], 6 * FAST)  # the first may have two things to ask
        yield (lambda: all(scene.kept.get(name) for name in two)), 0.1
        scene.let_go(first)
        off = scene.crash_with_answer(asked)
        yield has_answer(asked), 0.5
        off()
        if not ok(asked):
            yield from scene.gone(first)
        scene.let_go(second)
        yield from scene.pause(ARRIVED)
        scene.hurried.clear()
        scene.dropped.clear()
        yield from scene.served_later(second, third)
        yield from scene.consume((second, third))
    yield from scene.ended()


def _note_shape(shapes: set[Shape], sent: Sent) -> None:
    shapes.add(shape(sent))


def _goes_on(node: str, third: str, tries: Rule, sent: Sent) -> bool:
    """Whether a node sends the third one what nodes send that lead."""
    return sent.src == node and sent.dst == third and not tries(sent)


def _as_often(scene: Logs, *nodes: str) -> bool:
    """Whether these have tried, one as often as the other."""
    kept = scene.kept.get("tries", [])
    times = [len({sent.sent for sent in kept if sent.src == name}) for name in nodes]
    return times[0] == times[1] > 0
