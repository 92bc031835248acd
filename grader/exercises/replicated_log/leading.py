"""Scripts about who goes on when the node that spread messages is gone: it must have all that was acknowledged, and what an
earlier leader says late, or once more, must take nothing away.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

from grader.exercises.common.scenes import ARRIVED, Script, carries, has_answer, ok
from grader.exercises.replicated_log.agreeing import LONG
from grader.exercises.replicated_log.scene import PROMPT, TAKEN_OVER, Logs, Shape, shape
from grader.trace.story import Sent

FEW = 0.1  # seconds in which a node that leads has told all others of it


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
    """The node that leads takes a message that it brings to nobody, is cut off and gets many more. The others are asked, and
    the first of them that acknowledges a message crashes for good in that step. The other one speaks only when it is
    spoken to, and is slow, so that the old one tries to lead."""
    old, there = yield from scene.led()
    alone = scene.fresh()
    scene.dropped["alone"] = scene.holding(alone)
    scene.send(old, alone)
    yield from scene.pause(0.15)
    scene.cut((old,), there)
    scene.dropped.clear()
    for _ in range(8):
        scene.send(old)
    yield from scene.pause(TAKEN_OVER)
    scene.dropped["mute"] = lambda sent: sent.dst == old and scene.speaks_first(there, sent)
    scene.slowed["answers"] = lambda sent: sent.dst == old  # it hears first what it has itself
    asked = [scene.send(name) for name in there]
    off = scene.crash_with_answer(*asked)
    yield (lambda: any(ok(one) for one in asked)), PROMPT
    off()
    if not any(ok(one) for one in asked):
        raise scene.unserved(asked[0])
    yield from scene.pause(ARRIVED)
    scene.sim.heal()
    last = next(name for name in there if scene.sim.places[name].up)
    for _ in range(6):
        scene.send(old)
        scene.poll(old)
        yield from scene.pause(0.4)
    scene.dropped.clear()
    scene.slowed.clear()
    yield from scene.pause(TAKEN_OVER)
    yield from scene.served(scene.send(old), scene.send(last))
    yield from scene.ended()


def copies_arrive(scene: Logs) -> Script:
    """One of two followers is down while messages are acknowledged. The node that spread them crashes for good, and what
    it sent to the other follower arrives there once more, the oldest last."""
    hub, (has, lacks) = yield from scene.led()
    yield from scene.served(scene.send(lacks))  # it has been asked before, too
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


def votes_arrive_late(scene: Logs) -> Script:
    """A node that hears no leader asks to lead, and the answers of the one node that it reaches are under way for long.
    Then it is cut off, and the others acknowledge messages without it. The old answers arrive while it goes on asking, and
    it reaches the others."""
    hub, (asks, answers) = yield from scene.led()
    scene.cut((hub,), (asks,))
    scene.held["old"] = lambda sent: sent.src == answers and sent.dst == asks
    yield from scene.pause(1.6)
    scene.held.pop("old")  # what was kept stays under way
    since = scene.sim.time
    scene.cut((asks,), (hub, answers))
    yield from scene.pause(TAKEN_OVER)
    yield from scene.served(scene.send(hub), scene.send(answers))
    scene.let_go("old", lambda sent: sent.sent < since)
    yield from scene.pause(0.02)
    scene.sim.heal()
    for _ in range(5):
        for name in scene.names:
            scene.send(name)
            scene.poll(name)
        yield from scene.pause(0.2)
    yield from scene.ended()


def taken_after_a_promise(scene: Logs) -> Script:
    """A node that hears nobody asks the two others for their promise, and what the third answers is under way for long. The
    node that led brings a message, asked for later, to the third alone, and crashes for good in the step in which it
    acknowledges it. Now the old answer arrives: what the first node sends then is older than what the third has taken,
    though the third may have promised nothing newer."""
    hub, (asks, third) = yield from scene.led()
    usual, times = set[str](), list[float]()  # types of messages without a request, and when there were others
    scene.hurried["all"] = lambda _: True  # all is done before a node tries anew
    scene.dropped["alone"] = lambda sent: asks in (sent.src, sent.dst) and len(times) < 2
    scene.dropped["answer"] = lambda sent: sent.src == hub and sent.dst == asks and scene.answering(sent)
    scene.held["old"] = lambda sent: sent.src == third and sent.dst == asks
    scene.seen.append(lambda sent: usual.add(sent.type) if sent.src == asks and not times else None)
    yield from scene.pause(0.8)
    scene.seen.pop()
    scene.seen.append(partial(_note_others, asks, usual, times))
    scene.send(asks)
    yield (lambda: len(times) >= 2), LONG  # it tries for the second time: there is time until it does again
    scene.seen.pop()
    yield from scene.pause(0.003)
    message = scene.fresh()
    holding = scene.holding(message)
    scene.dropped["third"] = lambda sent: sent.src == hub and sent.dst == third and not holding(sent)
    scene.dropped["first"] = lambda sent: sent.src == hub and sent.dst == asks and holding(sent)
    asked = scene.send(hub, message)
    off = scene.crash_with_answer(asked)
    yield partial(scene.is_down, hub), 0.5
    off()
    scene.sim.heal()
    scene.let_go("old")
    yield from scene.pause(ARRIVED)
    scene.dropped.clear()
    scene.hurried.clear()
    if ok(asked):
        yield from scene.served_later(asks, third)
        yield from scene.consume((asks, third))
    yield from scene.ended()


def _note_others(node: str, usual: set[str], times: list[float], sent: Sent) -> None:
    """Note when a node sends another type of message than the usual ones."""
    if sent.src == node and sent.dst != node and sent.type not in usual and sent.sent not in times:
        times.append(sent.sent)


def earlier_acknowledgements(scene: Logs) -> Script:
    """A node leads two of five, and its one follower has many messages that no third node has. The follower acknowledged some
    in time, and its word for others is under way for long. Three others go on without them. Then the first node leads
    again, where it reaches two of those: what its old follower said of other messages must not count. If a message is
    acknowledged that only it and one other node have, both crash for good."""
    first, (follower, *there) = yield from scene.led()
    scene.cut((first, follower), there)
    for _ in range(6):
        scene.send(follower)  # so that the first node has no requests left that it hands in again
    yield from scene.pause(0.2)
    scene.held["old"] = lambda sent: sent.src == follower and sent.dst == first and scene.answering(sent)
    for _ in range(6):
        scene.send(follower)
    yield from scene.pause(TAKEN_OVER)
    scene.held.pop("old")  # what was kept stays under way
    since = scene.sim.time
    scene.cut((follower,), (first, *there))
    message = scene.fresh()
    yield from scene.served(scene.send(there[0], message))
    hub = scene.spreader(message, there[0])
    hub = hub if hub in there else there[0]  # the first node may lead again already
    has, lacks = (name for name in there if name != hub)
    yield from scene.pause(0.4)
    scene.cut((follower,), (hub,), (first, has, lacks))
    scene.dropped["mute"] = partial(scene.speaks_first, (has, lacks))
    asked = scene.send(first)
    yield partial(ok, asked), 4.8
    if not ok(asked):
        return
    few = scene.fresh()
    scene.dropped["few"] = lambda sent: carries(sent, few) and sent.dst != has
    asked = scene.send(first, few)
    scene.let_go("old", lambda sent: sent.sent < since)
    yield has_answer(asked), LONG
    if not ok(asked):
        return
    yield from scene.gone(first, has)
    scene.dropped.clear()
    left = [name for name in scene.names if scene.sim.places[name].up]
    yield from scene.served_later(*left)
    yield from scene.consume(left)
    yield from scene.ended()


def earlier_term(scene: Logs) -> Script:
    """Figure 8 of the Raft paper. A leader takes a message that it brings to nobody. Another node leads, takes a second
    message, and is cut off before it brings anything to anybody. The first one leads again, with two others, and brings its
    message to them. It crashes in the step in which it acknowledges that, and the node that was cut off, whose last entry
    is of a later term, leads."""
    first, rest = yield from scene.led()
    leading = scene.spreading(first)
    already = _lead(scene, rest, leading, LONG)  # where there are several leaders, of different keys
    early, seconds = scene.fresh(), {name: scene.fresh() for name in rest}
    scene.cut((first,), rest)
    asked = scene.send(first, early)
    scene.dropped["second"] = lambda sent: (
        sent.src in rest and (shape(sent) in leading or any(carries(sent, each) for each in seconds.values()))
    )
    for name in rest:  # the one that leads has its own when it is cut off
        scene.send(name, seconds[name])
    other = yield partial(_has_taken_over, scene, seconds, leading, already), 4.0
    if other is not None:
        one, *two = (name for name in rest if name != other)
        scene.cut((other,), (one,), (first, *two))
        off = scene.crash_with_answer(asked)
        yield has_answer(asked), max(0.0, asked.sent + 4.8 - scene.sim.time)
        off()
        if ok(asked):
            yield from scene.pause(ARRIVED)
            scene.sim.heal()
            scene.dropped["mute"] = partial(scene.speaks_first, (one, *two))
            scene.dropped["second"] = lambda sent: (
                sent.src != other and any(carries(sent, each) for each in seconds.values())
            )
            for _ in range(40):
                polled = scene.poll(other)
                yield from scene.pause(0.2)
                if polled.reply is not None and carries(polled.reply, seconds[other]):
                    return  # by now it is seen whether one of the messages has replaced the other
    scene.dropped.clear()
    yield from scene.ended()


def leads_again(scene: Logs) -> Script:
    """A node forwards a request. The node that spreads it crashes right after it has told another one, and restarts at once.
    The others speak only when they are spoken to until it leads again. Then the request is handed in once more."""
    hub, (asked, *_) = yield from scene.led()
    leading, message = scene.spreading(hub), scene.fresh()
    off = scene.crash_after_sending(hub, scene.holding(message))
    scene.send(asked, message)
    yield partial(scene.is_down, hub), 1.0
    off()
    scene.dropped["mute"] = partial(scene.speaks_first, scene.others(hub))
    scene.sim.restart(hub)
    yield from scene.pause(2 * FEW)
    yield (lambda: hub in _lead(scene, scene.names, leading, FEW)), LONG
    scene.dropped.clear()
    yield from scene.pause(1.0)
    yield from scene.ended()


def _has_taken_over(scene: Logs, seconds: Mapping[str, str], leading: set[Shape], already: set[str]) -> str | None:
    """A node that has begun to lead: it sends the others of these nodes what only a node sends that leads, or its own
    message of `seconds`."""
    for name in _lead(scene, seconds, leading, FEW):
        told = {m.dst for m in scene.sim.story.sent[-200:] if m.src == name and carries(m, seconds[name])}
        if name not in already or told >= seconds.keys() - {name}:
            return name
    return None


def _lead(scene: Logs, nodes: Iterable[str], leading: set[Shape], seconds: float) -> set[str]:
    """The nodes of these that have sent all others of them messages of these shapes in the last so many seconds."""
    told: dict[str, set[str]] = {name: set() for name in nodes}
    for sent in reversed(scene.sim.story.sent):
        if sent.sent < scene.sim.time - seconds:
            break
        if sent.src in told and shape(sent) in leading:
            told[sent.src].add(sent.dst)
    return {name for name, others in told.items() if others >= told.keys() - {name}}
