"""Scripts about crashes and disks: what a node knows when it comes back, after a crash at any point of what it does."""

from __future__ import annotations

from functools import partial

from grader.exercises.common.scenes import ARRIVED, Script, has_answer, ok
from grader.exercises.replicated_log.agreeing import LONG, one_of
from grader.exercises.replicated_log.scene import TAKEN_OVER, Logs
from grader.trace.story import Sent

STEPS = 10  # sends and writes after which a node crashes, one more each time


def after_each_effect(scene: Logs, who: str) -> Script:
    """A node crashes after it has sent or written once, twice and so on since a message came, and comes back: the node that
    spreads it (`who` "spreads"), the node that is asked ("asked"), or another."""
    hub, rest = yield from scene.led()
    for effects in range(1, STEPS + 1):
        message = scene.fresh()
        node = hub if who != "asked" else rest[0]
        victim = {"spreads": hub, "asked": node, "other": rest[0]}[who]
        scene.sim.crash_after(victim, scene.sim.places[victim].done + effects)
        asked = scene.send(node, message)
        scene.commit(node, effects)
        yield has_answer(asked), 0.35
        scene.sim.crash(victim)
        yield from scene.pause(0.03)
        scene.sim.restart(victim)
        for name in scene.names:
            scene.poll(name)
        yield from scene.pause(0.5)
        hub = scene.spreader(message, hub)
        rest = scene.others(hub)
    yield from scene.served_later(*scene.names)  # a leader without a request may show late what is there: "converges"
    yield from scene.ended()
    yield from scene.served(*(scene.list(name) for name in scene.names))


def both_forget(scene: Logs, first_back: bool, key: str) -> Script:
    """A message is acknowledged that two of three nodes have. One of them restarts at once, the other one crashes for good:
    the one that spread it, or (`first_back`) the one that only got it. A commit as well."""
    hub, (has, lacks) = yield from scene.led()
    message, odd = scene.fresh(), scene.fresh()
    lost = scene.holding(message, lacks), scene.holding(odd, lacks)
    scene.dropped["it"] = lambda sent: any(rule(sent) for rule in lost)
    asked = scene.send(hub, message, key)
    committed = scene.commit(hub, 4, odd)
    yield (lambda: ok(asked) and ok(committed)), 1.5
    scene.dropped["it"] = lambda sent: scene.holding(message)(sent) or scene.holding(odd)(sent)
    dies, back = (has, hub) if first_back else (hub, has)
    yield from scene.gone(back)
    scene.sim.restart(back)
    yield from scene.pause(0.01)
    yield from scene.gone(dies)
    scene.dropped.clear()
    yield from scene.pause(TAKEN_OVER)
    there = [name for name in scene.names if name != dies]
    yield from scene.served(*(scene.send(name, key=key) for name in there))
    yield from scene.consume(there, (key,))
    yield from scene.served(*(scene.list(name, odd) for name in there))
    yield from scene.ended((key,))
    yield from scene.served(*(scene.list(name, odd) for name in scene.names))


def told_and_forgotten(scene: Logs) -> Script:
    """A node gets a message and crashes right after its first answer to it; only that one and the node that spread it have
    it. If it is acknowledged, the latter crashes for good."""
    hub, (has, lacks) = yield from scene.led()
    message = scene.fresh()
    scene.sim.crash(lacks)
    yield from scene.pause(ARRIVED)

    def answers(sent: Sent) -> bool:
        return sent.dst == hub and message in "".join(str(m.body) for m in _arrived(scene, has))

    disarm = scene.crash_after_sending(has, answers)
    asked = scene.send(hub, message)
    yield partial(scene.is_down, has), 1.0
    disarm()
    yield has_answer(asked), 0.2
    if not ok(asked):  # nothing was promised
        scene.whole()
        yield from scene.ended()
        return
    scene.sim.crash(has)
    yield from scene.gone(hub)
    scene.sim.restart(has)
    scene.sim.restart(lacks)
    yield from scene.pause(TAKEN_OVER)
    yield from scene.served(scene.send(has), scene.send(lacks))
    yield from scene.consume((has, lacks))
    yield from scene.ended()


def _arrived(scene: Logs, node: str) -> list[Sent]:
    """What arrived at a node in this very moment."""
    return [sent for sent in scene.sim.story.sent[-200:] if sent.dst == node and sent.arrived == scene.sim.time]


def rolling(scene: Logs) -> Script:
    """Every node restarts, one after another, again and again, while clients go on."""
    yield from scene.led()
    for round_ in range(2):
        for name in scene.others():
            scene.sim.crash(name)
            for node in scene.names:
                scene.send(node)
            yield from scene.pause(0.1 + 0.4 * round_)
            scene.sim.restart(name)
            yield from scene.pause(0.02)
            for node in scene.names:
                scene.poll(node)
                scene.commit(node, round_)
            yield from scene.pause(0.5)
    yield from scene.ended()
    yield from scene.served(*(scene.list(name) for name in scene.names))


def numbers_begin_again(scene: Logs, whom: int) -> Script:
    """A node is asked, restarts, and is asked again: the second request is not the first one."""
    hub, rest = yield from scene.led()
    node = [hub, *rest][whom]
    yield from scene.served(*(scene.send(node) for _ in range(3)))
    for _ in range(2):
        scene.sim.crash(node)
        yield from scene.pause(0.05)
        scene.sim.restart(node)
        yield from scene.pause(TAKEN_OVER)
        yield from scene.served(*(scene.send(node) for _ in range(3)))
    yield from scene.ended()


def number_used_again(scene: Logs) -> Script:
    """A node has just started. It brings a message to one other node and crashes before the third one hears of it; it
    restarts, brings another message to the third one alone, and crashes for good in the step in which it acknowledges that.
    Of the other two, the one with the first message goes on: what it has must not seem as new as the acknowledged one."""
    node, (early, late) = yield from scene.led()
    first = scene.fresh()
    scene.sim.crash(node)
    yield from scene.pause(0.01)
    scene.sim.restart(node)
    scene.dropped["late"] = scene.holding(first, late)
    disarm = scene.crash_after_sending(node, scene.holding(first, early))
    scene.send(node, first)
    yield partial(scene.is_down, node), 0.5
    disarm()
    if not scene.is_down(node):
        return  # another node spreads what this one is sent
    scene.dropped["early"] = lambda sent: early in (sent.src, sent.dst)
    yield from scene.pause(ARRIVED)
    scene.sim.restart(node)
    asked = scene.send(node)
    off = scene.crash_with_answer(asked)
    yield has_answer(asked), TAKEN_OVER + LONG
    off()
    if not ok(asked):
        return
    yield from scene.pause(0.6)
    scene.sim.heal()
    scene.dropped.clear()
    scene.dropped["mute"] = lambda sent: sent.src == late and not scene.answering(sent)
    scene.slowed["answers"] = lambda sent: sent.src == late  # the other one hears first what it has itself
    for _ in range(6):
        scene.send(early)
        scene.poll(early)
        yield from scene.pause(0.4)
    scene.dropped.clear()
    scene.slowed.clear()
    yield from scene.served_later(early, late)
    yield from scene.consume((early, late))
    yield from scene.ended()


def answered_in_an_earlier_life(scene: Logs, at_hub: bool) -> Script:
    """What others tell a node about its requests is under way for long, and the node crashes and restarts. It is cut off and
    asked again, in the same order; then the old answers arrive. They say nothing of the new requests."""
    hub, rest = yield from scene.led()
    node, key = one_of(scene, hub, rest, at_hub), scene.fresh()
    there = [name for name in scene.names if name != node]
    scene.sim.crash(node)
    yield from scene.pause(0.01)
    scene.sim.restart(node)
    yield from scene.pause(TAKEN_OVER)
    scene.held["old"] = lambda sent: sent.dst == node
    yield from _asked_in_turn(scene, node, key, 5)
    yield from scene.pause(ARRIVED)
    scene.sim.crash(node)
    scene.held.pop("old")  # what was kept stays under way
    yield from scene.pause(0.01)
    scene.sim.restart(node)
    since = scene.sim.time
    yield from scene.pause(TAKEN_OVER)
    scene.cut((node,), there)
    yield from scene.pause(TAKEN_OVER)
    yield from scene.served(scene.commit(there[0], 8, key))
    yield from _asked_in_turn(scene, node, key, 9)
    scene.let_go("old", lambda sent: sent.sent < since)
    yield from scene.pause(0.3)
    yield from scene.gone(node)
    yield from scene.served(*(scene.list(name, key) for name in there))
    yield from scene.consume(there)
    yield from scene.ended()
    yield from scene.served(*(scene.list(name, key) for name in scene.names))


def adopted_and_forgotten(scene: Logs) -> Script:
    """Only the node that led has a message, it speaks only when it is spoken to, and what it was told before arrives late.
    One of the others takes over with it alone and takes the message from it, which is acknowledged then. The new one
    restarts at once, and the old one crashes for good."""
    old, (new, third) = yield from scene.led()
    scene.dropped["third"] = lambda sent: third in (sent.src, sent.dst)
    scene.held["before"] = lambda sent: sent.src == new and sent.dst == old
    yield from scene.pause(0.25)
    scene.held.pop("before")  # what was kept stays under way
    scene.dropped["mute"] = lambda sent: sent.src == old and not scene.answering(sent)
    asked = scene.send(old)
    yield from scene.pause(ARRIVED)
    scene.let_go("before")
    yield has_answer(asked), 2 * LONG
    if not ok(asked):
        return
    yield from scene.gone(new)
    scene.sim.restart(new)
    yield from scene.pause(0.01)
    yield from scene.gone(old)
    scene.dropped.clear()
    yield from scene.served_later(new, third)
    yield from scene.consume((new, third))
    yield from scene.ended()


def _asked_in_turn(scene: Logs, node: str, key: str, offset: int) -> Script:
    """A request of each kind, as soon as the one before has arrived."""
    scene.send(node)
    yield from scene.pause(ARRIVED)
    scene.commit(node, offset, key)
    yield from scene.pause(ARRIVED)
    scene.list(node, key)
    yield from scene.pause(ARRIVED)


def one_voter(scene: Logs, restarts: bool) -> Script:
    """The node that leads restarts. The two others cannot hear each other, so that only that node can make one of them
    leader, and it may make only one of them the leader of a term. With `restarts` it restarts after each message. What the
    first of them sends after that is late, so that the other one asks as if there was no leader."""
    voter, (one, other) = yield from scene.led()
    scene.dropped["apart"] = lambda sent: {sent.src, sent.dst} == {one, other}
    yield from scene.gone(voter)
    yield from scene.pause(0.1)
    scene.sim.restart(voter)
    answered: set[str] = set()

    def look(sent: Sent) -> None:
        if sent.src == voter and scene.answering(sent):
            answered.add(sent.dst)

    scene.seen.append(look)
    scene.held["later"] = lambda sent: sent.dst == voter and sent.src in answered
    until = scene.sim.time + 1.0
    while restarts and scene.sim.time < until:
        disarm = scene.crash_after_sending(voter, lambda _: True)
        yield partial(scene.is_down, voter), until - scene.sim.time
        disarm()
        scene.sim.restart(voter)
        yield from scene.pause(0.0)
    scene.sim.restart(voter)
    yield (lambda: len(answered) == 2), max(0.0, until - scene.sim.time)
    scene.seen.remove(look)
    scene.let_go("later")
    for _ in range(8):
        for name in (one, other):
            scene.send(name)
        yield from scene.pause(0.15)
        for name in scene.names:
            scene.poll(name)
    scene.dropped.clear()
    yield from scene.pause(TAKEN_OVER)
    yield from scene.served(*(scene.send(name) for name in scene.names))
    yield from scene.ended()
