"""Scripts about how a message is decided: two nodes with the same number, and what a majority has taken, but one of it
forgets before it has what was decided.
"""

from __future__ import annotations

from functools import partial

from grader.exercises.common.scenes import ARRIVED, FAST, Rule, Script, carries, has_answer, ok
from grader.exercises.replicated_log.agreeing import LONG
from grader.exercises.replicated_log.scene import Logs, Shape, holds_a_message, shape
from grader.nodes.clients import Asked
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


def forgotten_half_way(scene: Logs, again: bool) -> Script:
    """A message is acknowledged that one other node has, and the node that spread it is cut off from then on. The other one
    has crashed and restarted meanwhile, right after its first write since the acknowledgement, or (`again`) since what it
    was sent arrived once more."""
    hub, (has, lacks) = yield from scene.led()
    message = scene.fresh()
    scene.cut((hub, has), (lacks,))
    asked = scene.send(hub, message)
    if (yield partial(_acknowledged, scene, asked), LONG):
        told = (hub, has, "delivered")
        copies = [m for m in scene.sim.story.sent if (m.src, m.dst, m.fate) == told and carries(m, message)]
        if again:
            yield from scene.pause(0.2)
        disarm = scene.crash_after_writing(has)
        for place, sent in enumerate(copies if again else ()):
            scene.sim.late(sent, FAST * (1 + place))
        yield partial(scene.is_down, has), 0.3
        disarm()
        scene.cut((hub,), (has, lacks))
        scene.sim.crash(has)
        yield from scene.pause(0.01)
        scene.sim.restart(has)
        yield from scene.served_later(has, lacks)
        yield from scene.consume((has, lacks))
    yield from scene.ended()


def told_and_let_go(scene: Logs, writes: int = 0) -> Script:
    """A message is acknowledged that one other node has, and the node that spread it restarts in that step and is cut off.
    The third node hears of the message from that other one, which speaks only when it is spoken to, and restarts right
    after it has begun to spread it: nobody hears that. Or it restarts after so many `writes` to its disk."""
    hub, (has, lacks) = yield from scene.led()
    message = scene.fresh()
    scene.cut((hub, has), (lacks,))
    asked = scene.send(hub, message)
    off = scene.crash_with_answer(asked)
    yield has_answer(asked), LONG
    off()
    if ok(asked):
        scene.sim.restart(hub)
        scene.dropped["mute"] = lambda sent: sent.src == has and not scene.answering(sent)
        if writes:
            disarm = scene.crash_after_writing(lacks, writes)
        else:
            scene.dropped["it"] = lambda sent: sent.src == lacks and carries(sent, message)
            disarm = scene.crash_after_sending(lacks, lambda sent: sent.dst == has and carries(sent, message))
        yield from scene.pause(2 * CALM)  # it hears nobody
        scene.send(lacks)
        yield partial(scene.is_down, lacks), 1.5
        disarm()
        scene.sim.crash(lacks)
        yield from scene.pause(0.01)
        scene.sim.restart(lacks)
        scene.dropped.clear()
        yield from scene.served_later(has, lacks)
        yield from scene.consume((has, lacks))
    yield from scene.ended()


def _acknowledged(scene: Logs, asked: Asked) -> bool:
    """Whether a node has sent this acknowledgement, which need not have arrived."""
    return any(
        m.dst == asked.client and m.type == "send_ok" for m in scene.sim.story.sent[-50:] if m.sent >= asked.sent
    )
