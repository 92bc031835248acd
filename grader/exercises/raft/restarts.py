"""Scripts about crashes and disks: what is on disk when a node's process ends, and what it takes that for afterwards."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from grader.exercises.common.scenes import ARRIVED, Script, carries, has_answer, ok
from grader.exercises.raft.logs import between, confirmed, led_by, needed, until_read
from grader.exercises.raft.scene import Scene
from grader.trace.story import Sent


@between()
def follower_forgets(scene: Scene, a: str) -> Script:
    """A follower acknowledges an entry and crashes at once; the leader confirms the write, and crashes for good."""
    b, c = scene.others(a)
    scene.sim.crash(b)  # and not cut off: its term does not grow
    arrived: list[Sent] = []
    scene.seen.append(lambda m: arrived.append(m) if m.dst == c and carries(m, "kept by two") else None)

    def acknowledges(message: Sent) -> bool:
        return message.type == "append_entries_res" and any(m.fate == "delivered" for m in arrived)

    disarm = scene.crash_after_sending(c, acknowledges)
    asked = yield from confirmed(scene, a, "kept by two")
    disarm()
    scene.sim.crash(c)
    if asked is not None:
        scene.sim.crash(a)
    yield from scene.pause(ARRIVED)  # what it sent is lost
    scene.sim.restart(b)
    scene.sim.restart(c)
    yield from led_by(scene, c, b)
    yield from until_read(scene)


def same_entry_again(writes: int) -> Callable[[Scene], Script]:
    """A follower has an entry, and its acknowledgement is under way. The leader sends that entry again, then with a new
    one, and the follower crashes after so many writes. Then the acknowledgement arrives, and the leader crashes for good."""

    @between()
    def script(scene: Scene, a: str) -> Script:
        b, c = scene.others(a)
        scene.sim.crash(b)  # and not cut off: its term does not grow
        scene.held["acknowledgements"] = lambda m: (m.src, m.dst, m.type) == (c, a, "append_entries_res")
        asked = scene.ask(a, "write", value="kept by two")
        yield from scene.pause(2 * ARRIVED)
        disarm = scene.crash_after_writing(c, writes)
        scene.ask(a, "write", "y", value="the next one")
        yield partial(scene.is_down, c), 0.5
        disarm()
        scene.sim.crash(c)
        scene.let_go("acknowledgements")
        yield has_answer(asked), 0.5
        if ok(asked):
            scene.sim.crash(a)
        yield from scene.pause(ARRIVED)
        scene.sim.restart(b)
        scene.sim.restart(c)
        yield from led_by(scene, c, b)
        yield from until_read(scene)

    return script


@between()
def leader_forgets(scene: Scene, a: str) -> Script:
    """A leader confirms a write and crashes; it restarts, and is a majority with the node that never had the entry."""
    b, c = scene.others(a)
    scene.sim.crash(b)  # and not cut off: its term does not grow
    needed((yield from confirmed(scene, a, "kept by two")))
    scene.sim.crash(a)
    scene.sim.crash(c)
    yield from scene.pause(ARRIVED)  # what it sent is lost
    scene.sim.restart(b)
    scene.sim.restart(a)
    yield from led_by(scene, a, b)
    yield from until_read(scene)


@between()
def power_cut(scene: Scene, _: str) -> Script:
    """All nodes lose power when all have a write that is confirmed, twice."""
    for number in range(2):
        yield from scene.done("write", value=f"before power cut {number}")
        yield from scene.pause(0.3)
        for name in scene.names:
            scene.sim.crash(name)
        yield from scene.pause(0.2)
        for name in scene.others():
            scene.sim.restart(name)
        yield from until_read(scene)


@between("x", "y")
def leader_restarts_alone(scene: Scene, a: str) -> Script:
    """A leader takes writes that nobody hears of, crashes and restarts; the others write over them; then it leads."""
    b, c = scene.others(a)
    scene.cut((a,), (b, c))
    for number in range(6):
        scene.ask(a, "write", "w", value=f"old leader {number}")
    yield from scene.pause(0.05)
    scene.sim.crash(a)
    yield from scene.pause(0.05)
    scene.sim.restart(a)
    new = yield from scene.settled([b, c], above=scene.term(a))
    for value in ("one", "two", "three"):
        needed((yield from confirmed(scene, new, f"new term {value}", "y")))
    scene.sim.heal()
    yield from scene.pause(0.5)
    new = yield from scene.settled([b, c])
    needed((yield from confirmed(scene, new, "when all were there again")))
    yield from scene.pause(0.3)
    scene.sim.crash(new)
    scene.no_candidates(*{b, c} - {new})
    needed((yield from scene.elected([a], 4.0, above=scene.term(new))))
    scene.candidates_again()
    yield from scene.done("read", "y", among=[a])
    yield from scene.done("read", "x", among=[a])


@between("x", "y")
def old_leader_after_a_restart(scene: Scene, a: str) -> Script:
    """A follower learns of a term by append_entries alone, acknowledges an entry of it, crashes and restarts; then it
    hears the leader of the term before, which has other entries there."""
    c, *rest = scene.others(a)
    scene.cut((a,), (c, *rest))
    for number in range(3):
        scene.ask(a, "write", "y", value=f"old leader {number}")
    scene.no_candidates(c)
    scene.dropped["c does not vote"] = lambda m: m.dst == c and m.type == "request_vote"
    b = yield from scene.settled(rest, above=scene.term(a))
    d, e = (name for name in rest if name != b)
    scene.cut((b, c, d), (a,), (e,))
    needed((yield from confirmed(scene, b, "on a majority with the follower")))
    scene.sim.crash(c)
    scene.cut((a, c), (b, d), (e,))
    yield from scene.pause(ARRIVED)  # what it sent is lost
    scene.sim.restart(c)
    yield from scene.pause(0.4)
    for node in (b, d):
        scene.sim.crash(node)
    yield from scene.pause(ARRIVED)
    scene.sim.heal()
    scene.candidates_again()
    scene.no_candidates(c, e)
    yield from scene.elected([a], 2.0, above=scene.term(b))
    scene.candidates_again()
    yield from until_read(scene)


def half_replaced(effects: int) -> Callable[[Scene], Script]:
    """A follower that has entries of an old leader crashes after so many sends and writes, while those of the next one
    replace them; then the old leader leads again, what it has is confirmed, and the follower leads."""

    @between("x", "y")
    def script(scene: Scene, a: str) -> Script:
        c, *rest = scene.others(a)
        scene.cut((a, c), rest)
        scene.ask(a, "write", value="old leader")
        for number in range(3):
            scene.ask(a, "write", "y", value=f"old leader {number}")
        yield from scene.pause(0.3)
        b = yield from scene.settled(rest, above=scene.term(a))
        d, e = (name for name in rest if name != b)
        scene.cut((b, c), (a,), (d,), (e,))
        scene.no_candidates(c, d, e)
        scene.sim.crash_after(c, scene.sim.places[c].done + effects)
        yield partial(scene.is_down, c), 0.4
        scene.sim.crash(c)
        scene.cut((b,), (a, c, d, e))
        yield from scene.pause(ARRIVED)
        scene.sim.restart(c)
        needed((yield from scene.elected([a], 4.0, above=scene.term(b))))
        yield from scene.done("write", "y", among=[a], value="confirmed")
        yield from scene.done("read", among=[a])
        yield from scene.pause(0.2)
        scene.sim.crash(a)
        yield from scene.pause(ARRIVED)
        for node in (d, e):  # which know of no leader then
            scene.sim.crash(node)
            scene.sim.restart(node)
        yield from led_by(scene, c, d, e)
        yield has_answer(scene.ask(c, "read")), 1.0

    return script


@between("x", "y")
def crashes_between_writes(scene: Scene, a: str) -> Script:
    """A follower that has entries of a leader without a majority crashes again and again while they are replaced, after
    another one of its writes each time, and once more afterwards; then that old leader asks for its vote.

    The first write is that of the new term. The second crash comes after the first write of the truncation itself."""
    c, *rest = scene.others(a)
    scene.cut((a, c), rest)
    for number in range(5):
        scene.ask(a, "write", "y", value=f"old leader {number}")
    yield from scene.pause(0.3)
    b = yield from scene.settled(rest, above=scene.term(a))
    d, e = (name for name in rest if name != b)
    scene.cut((b, c, d), (a,), (e,))
    scene.no_candidates(c, d)
    asked = scene.ask(b, "write", value="on a majority with the follower")
    for effects in (1, 1, 2, 3, 2, 4):
        scene.sim.crash_after(c, scene.sim.places[c].done + effects)
        yield partial(scene.is_down, c), 0.4
        scene.sim.crash(c)
        yield from scene.pause(0.01)
        scene.sim.restart(c)
    yield has_answer(asked), 1.5
    needed(asked if ok(asked) else None)
    scene.sim.crash(c)
    for node in (b, d):
        scene.sim.crash(node)
    yield from scene.pause(ARRIVED)  # what they sent is lost
    scene.sim.restart(c)
    scene.sim.heal()
    scene.no_candidates(c, e)
    yield from scene.elected([a], 2.0, above=scene.term(b))
    scene.candidates_again()
    yield from until_read(scene)
