"""Scripts about the log: what was confirmed is kept, whoever is elected, and what was not is never taken for it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from typing import Any

from grader.exercises.common.scenes import ARRIVED, Script, carries, has_answer, ok
from grader.exercises.raft.scene import Scene
from grader.nodes.clients import Asked
from grader.trace.story import Sent

OWN = ("request_vote", "request_vote_res", "append_entries", "append_entries_res")  # Raft's messages


class Over(Exception):  # noqa: N818 - reads as what has become of the script
    """What the rest of a script needs did not happen."""


def needed(found: Any) -> None:
    """Without this there is nothing more to show."""
    if found is None:
        raise Over


def between(*keys: str) -> Callable[[Callable[[Scene, str], Script]], Callable[[Scene], Script]]:
    """Before a script there is a leader whose first write every node has; after it all is whole again: a write is
    confirmed, and what was written is read."""

    def decorate(script: Callable[[Scene, str], Script]) -> Callable[[Scene], Script]:
        @wraps(script)
        def all_of_it(scene: Scene) -> Script:
            yield from scene.done("write", value="first")
            yield from scene.pause(0.4)
            with suppress(Over):
                yield from script(scene, (yield from scene.settled()))
            scene.whole()
            yield from scene.done("write", "z", value="whole again")
            for key in keys or ("x",):
                yield from scene.done("read", key)

        return all_of_it

    return decorate


def until_read(scene: Scene) -> Script:
    """What the nodes that are up and connected say is in x."""
    up = [name for name in scene.names if scene.sim.places[name].up]
    yield from scene.done("read", among=up)


def led_by(scene: Scene, node: str, *not_by: str) -> Script:
    """Nobody hears the others ask for votes, so that this one is elected, if it can be."""
    scene.no_candidates(*not_by)
    yield from scene.elected([node], 3.0)
    scene.candidates_again()


def confirmed(scene: Scene, node: str, value: str, key: str = "x", seconds: float = 1.0) -> Script:
    """A write at this node: the request if it was confirmed, else None."""
    asked = scene.ask(node, "write", key, value=value)
    yield has_answer(asked), seconds
    return asked if ok(asked) else None


# ---- leader completeness


@between()
def lagging_follower_stands(scene: Scene, a: str) -> Script:
    """A follower misses a confirmed write; the leader crashes, and only the lagging one asks for votes."""
    f, g = scene.others(a)
    scene.cut((f,), (a, g))
    needed((yield from confirmed(scene, a, "missed by one")))
    scene.sim.crash(a)
    scene.sim.heal()
    scene.no_candidates(g)
    yield from scene.elected([f], 1.5)
    scene.candidates_again()
    yield from until_read(scene)


@between("x", "y")
def long_log_stands(scene: Scene, a: str) -> Script:
    """A cut-off leader takes four writes that nobody confirms; its log is longer than that of the next leader's term,
    but older."""
    b, c = scene.others(a)
    scene.cut((a,), (b, c))
    for number in range(4):
        scene.ask(a, "write", "y", value=f"old leader {number}")
    new = yield from scene.settled([b, c], above=scene.term(a))
    needed((yield from confirmed(scene, new, "new term")))
    scene.sim.crash(new)
    scene.sim.heal()
    scene.no_candidates(b, c)
    yield from scene.elected([a], 2.0, above=scene.term(new))
    scene.candidates_again()
    yield from until_read(scene)


@between()
def half(scene: Scene, a: str) -> Script:
    """The leader reaches no majority any more: what it confirms then, the others never heard of."""
    others = scene.others(a)
    here, there = [a, *others[: len(scene.names) // 2 - 1]], others[len(scene.names) // 2 - 1 :]
    scene.cut(here, there)
    yield from scene.pause(0.06)
    asked = yield from confirmed(scene, a, "cut off", seconds=1.5)
    if asked is not None and (yield from scene.elected(there, 3.0, above=scene.term(a))):
        yield from scene.done("read", among=there)


@between("x", "y")
def longer_log_matches(scene: Scene, a: str) -> Script:
    """An old leader's log is longer than the new leader's; it hears heartbeats, and none of the entry that comes then.
    What it says of its log arrives when the new leader has that entry."""
    b, c = scene.others(a)
    scene.cut((a,), (b, c))
    for number in range(6):
        scene.ask(a, "write", "y", value=f"old leader {number}")
    yield from scene.pause(0.1)
    new = yield from scene.settled([b, c], above=scene.term(a))
    scene.cut((a, new), (c if new == b else b,))
    yield from scene.pause(0.4)
    scene.held["how far it agrees"] = lambda m: m.src == a and m.type == "append_entries_res"
    yield from scene.pause(0.15)
    scene.dropped["the entry"] = lambda m: m.dst == a and carries(m, "on the leader alone")
    asked = scene.ask(new, "write", value="on the leader alone")
    yield from scene.pause(0.06)  # it is there
    scene.let_go("how far it agrees")
    yield has_answer(asked), 1.0
    needed(asked if ok(asked) else None)
    scene.sim.crash(new)
    scene.candidates_again()
    yield from scene.pause(ARRIVED)  # what it sent is lost
    scene.sim.heal()
    yield from until_read(scene)


# ---- entries of earlier terms


@between("a", "e")
def figure_8(scene: Scene, a: str) -> Script:
    """Figure 8 of the paper: an entry of an earlier term is on a majority, and yet is overwritten.

    A leader takes "a" to one follower; another is elected without it and takes "e" to nobody. A leads again, with a
    majority, and brings "a" to it. Then E, whose last entry is of a later term, is elected by that same majority.
    """
    p, *rest = scene.others(a)
    scene.cut((a, p), rest)
    early = scene.ask(a, "write", "a", value="first term")
    yield from scene.pause(0.25)
    e = yield from scene.settled(rest, above=scene.term(a))
    q, r = (name for name in rest if name != e)
    scene.cut((a, p), (e,), (q, r))
    scene.ask(e, "write", "e", value="second term")
    yield from scene.pause(0.05)
    above = scene.term(e)
    scene.cut((e,), (a, p, q, r))
    scene.no_candidates(p, q, r)
    scene.dropped["not to r"] = lambda m: m.dst == r and m.type == "append_entries"
    needed((yield from scene.elected([a], 4.0, above=above)))
    yield has_answer(early), 0.6
    scene.candidates_again()
    scene.cut((a,), (e, p, q, r))
    scene.no_candidates(p, q, r)
    third = yield from scene.elected([e], 3.0, above=scene.term(a))
    scene.candidates_again()
    needed(third)
    yield from scene.done("read", "a", among=[e, p, q, r])
    yield from scene.done("read", "e", among=[e, p, q, r])
    scene.sim.heal()
    yield from scene.pause(0.4)
    scene.sim.crash(e)
    scene.no_candidates(p, q, r)
    yield from scene.elected([a], 3.0, above=scene.term(e))
    scene.candidates_again()
    yield from scene.done("read", "e", among=[a, p, q, r])


# ---- late


@between("x", "y")
def old_leader_appends(scene: Scene, a: str) -> Script:
    """append_entries of a leader that was cut off arrive late, when a later leader has confirmed a write."""
    b, c = scene.others(a)
    scene.held["to others"] = lambda m: m.src == a and m.type == "append_entries"
    old_term = scene.term(a)
    scene.ask(a, "write", "y", value="old leader")
    yield from scene.pause(0.1)
    scene.cut((a,), (b, c))
    new = yield from scene.settled([b, c], above=old_term)
    voter = c if new == b else b
    yield from confirmed(scene, new, "new term too", "y")
    needed((yield from confirmed(scene, new, "new term")))
    scene.sim.crash(new)
    scene.let_go("to others", lambda m: m.dst == voter and m.body.get("term") == old_term)
    yield from scene.pause(0.02)
    scene.sim.heal()
    yield from until_read(scene)


@between()
def appends_again(scene: Scene, a: str) -> Script:
    """append_entries that a follower had already arrive once more, the oldest last; then its leader crashes."""
    b, c = scene.others(a)
    scene.sim.crash(b)  # and not cut off: its term does not grow
    sent: list[Sent] = []
    scene.seen.append(lambda m: sent.append(m) if m.src == a and m.dst == c and m.type == "append_entries" else None)
    asked: Asked | None = None
    for number in range(3):
        asked = yield from confirmed(scene, a, f"confirmed {number}")
    needed(asked)
    scene.sim.crash(a)
    delivered = [message for message in sent if message.fate == "delivered"][-20:]
    for place, message in enumerate(reversed(delivered)):
        scene.sim.late(message, 0.001 + 0.0005 * place)
    yield from scene.pause(0.02)
    scene.sim.restart(b)
    yield from led_by(scene, c, b)
    yield from until_read(scene)


@between("x", "y")
def acknowledgements_of_before(scene: Scene, a: str) -> Script:
    """As `late_acknowledgements`; but they arrive at once, in the first term, and the node leads again."""
    yield from _leads_again(scene, a, late=False)


@between("x", "y")
def late_acknowledgements(scene: Scene, a: str) -> Script:
    """A follower's acknowledgements of an earlier term arrive when the same node leads again, with another log."""
    yield from _leads_again(scene, a, late=True)


def _leads_again(scene: Scene, a: str, late: bool) -> Script:
    c, *rest = scene.others(a)
    scene.cut((a, c), rest)
    if late:
        scene.held["acknowledgements"] = lambda m: m.src == c and m.dst == a and m.type == "append_entries_res"
    open_ones = [scene.ask(a, "write", "y", value=f"old leader {number}") for number in range(4)]
    yield from scene.pause(0.3)
    x = yield from scene.settled(rest, above=scene.term(a))
    scene.held.clear()
    # what A was asked for stays with it
    scene.dropped["requests"] = lambda m: not late and m.src == a and m.type not in OWN
    scene.cut((c,), (a, *rest))
    asked = yield from confirmed(scene, x, "replaces what A had", seconds=2.0)
    yield from scene.pause(0.3)
    needed(asked)
    scene.dropped.pop("requests")
    y, z = (name for name in rest if name != x)
    scene.sim.crash(x)
    yield from scene.pause(ARRIVED)
    for node in (y, z) if not late else ():  # which know of no leader then
        scene.sim.crash(node)
        scene.sim.restart(node)
    scene.no_candidates(y, z)
    needed((yield from scene.elected([a], 4.0, above=scene.term(x))))
    scene.candidates_again()
    scene.cut((a, y), (z,), (c,))
    kept = scene.kept.get("acknowledgements", [])[-6:]
    for message in kept:
        scene.sim.late(message, 0.002)
    open_ones.append(scene.ask(a, "write", value="on two of five"))
    yield from scene.pause(0.01)
    for message in kept:
        scene.sim.late(message, 0.002)
    yield has_answer(open_ones[-1]), 1.0
    if any(map(ok, open_ones)):
        scene.sim.crash(a)
        scene.sim.crash(y)
        yield from scene.pause(ARRIVED)  # what they sent is lost
        scene.sim.restart(x)
        scene.sim.heal()
        yield from until_read(scene)
        yield from scene.done("read", "y", among=[z, c, x])


# ---- forwarding


def handed_in_again(scene: Scene) -> Script:
    """A leader hears no acknowledgements for a while; who asked a follower for a write is patient, and so the follower may
    hand it in again. Meanwhile another client changes what was written."""
    yield from scene.done("write", value="first")
    yield from scene.pause(0.4)
    a = yield from scene.settled()
    scene.dropped["acknowledgements"] = lambda m: m.dst == a and m.type == "append_entries_res"
    asked = [scene.ask(scene.others(a)[0], "write", value="one")]
    yield from scene.pause(0.6)
    asked.append(scene.ask(a, "cas", **{"from": "one", "to": "two"}))
    yield from scene.pause(0.7)
    scene.candidates_again()
    yield (lambda: all(one.answer for one in asked)), 2.0
    yield from scene.pause(0.3)
    yield from scene.done("read")


def given_up(scene: Scene) -> Script:
    """All nodes are alone for six seconds, in which the leader's client waits for a write; then the leader leads again."""
    yield from scene.done("write", value="first")
    yield from scene.pause(0.4)
    a = yield from scene.settled()
    scene.cut(*((name,) for name in scene.names))
    asked = scene.ask(a, "write", value="asked for when all were alone")
    yield has_answer(asked), 6.0
    scene.sim.heal()
    yield from led_by(scene, a, *scene.others(a))
    yield from scene.pause(0.5)
    yield from scene.done("read")


def forwarded_again(scene: Scene) -> Script:
    """A follower forwards a write; when a later one has been confirmed, the network brings what it forwarded once more."""
    yield from scene.done("write", value="first")
    yield from scene.pause(0.4)
    a = yield from scene.settled()
    others: list[Sent] = []
    scene.seen.append(lambda m: others.append(m) if m.type not in OWN else None)
    for node in scene.others(a):
        for value in (f"by way of {node}", f"again by way of {node}"):
            asked = scene.ask(node, "write", value=value)
            yield has_answer(asked), 1.0
    yield from scene.done("write", value="the last")
    for message in others:
        if message.fate == "delivered":
            scene.sim.late(message, 0.002)
    yield from scene.pause(0.3)
    yield from scene.done("read")
