"""Scripts about reads: what a client is told is what was last confirmed, whichever node it asks."""

from __future__ import annotations

from grader.exercises.common.scenes import ARRIVED, Script, carries, has_answer
from grader.exercises.raft.logs import between, confirmed, needed
from grader.exercises.raft.scene import Scene
from grader.nodes.network import Network
from grader.trace.story import Sent


@between()
def old_leader_reads(scene: Scene, a: str) -> Script:
    """The leader is cut off with a client; another is elected and confirms a write; then that client reads."""
    others = scene.others(a)
    kept = others[: scene.rng.randint(0, (len(scene.names) - 3) // 2)]
    rest = [name for name in others if name not in kept]
    scene.cut([a, *kept], rest)
    new = yield from scene.settled(rest, above=scene.term(a))
    needed((yield from confirmed(scene, new, "new leader", seconds=2.0)))
    reads = [scene.ask(name, "read") for name in (a, *kept)]
    yield (lambda: all(read.answer for read in reads)), 1.0


@between()
def old_leader_compares(scene: Scene, a: str) -> Script:
    """As `old_leader_reads`, but what the client asks is a cas from the new value, which the old leader does not have."""
    others = scene.others(a)
    scene.cut((a,), others)
    new = yield from scene.settled(others, above=scene.term(a))
    needed((yield from confirmed(scene, new, "new leader", seconds=2.0)))
    cas = scene.ask(a, "cas", **{"from": "new leader", "to": "new leader"})
    yield has_answer(cas), 1.0


@between()
def lagging_follower_reads(scene: Scene, a: str) -> Script:
    """A follower is cut off with a client; the leader confirms a write; then that client reads. The follower gets no
    votes: what it would do to the leader's log is for another check."""
    f, *rest = scene.others(a)
    scene.no_candidates(f)
    scene.cut((f,), (a, *rest))
    asked = yield from confirmed(scene, a, "missed by one")
    if asked is not None:
        read = scene.ask(f, "read")
        yield has_answer(read), 0.7
    scene.sim.heal()
    needed(asked)
    read = scene.ask(f, "read")
    yield has_answer(read), 0.5


@between()
def old_acknowledgements_and_a_read(scene: Scene, a: str) -> Script:
    """As `old_leader_reads`; but after the read was asked for, acknowledgements arrive that followers sent before."""
    others = scene.others(a)
    scene.held["acknowledgements"] = lambda m: m.dst == a and m.type == "append_entries_res"
    yield from scene.pause(0.25)
    scene.held.clear()
    scene.cut((a,), others)
    new = yield from scene.settled(others, above=scene.term(a))
    asked = yield from confirmed(scene, new, "new leader", seconds=2.0)
    if asked is not None and scene.role(a) == "leader":
        read = scene.ask(a, "read")
        yield from scene.pause(0.055)
        scene.let_go("acknowledgements")
        yield has_answer(read), 0.3


@between()
def restarted_voter_and_a_read(scene: Scene, a: str) -> Script:
    """A follower that has just acknowledged crashes, restarts, and is asked for its vote at once. If it votes, the new
    leader confirms a write before a lease of the old one could be over, which is asked for a read then."""
    b, c = scene.others(a)
    before, scene.sim.network = scene.sim.network, Network(0.001, 0.002)
    yield from scene.pause(0.2)
    scene.dropped["b hears nobody"] = lambda m: {m.src, m.dst} == {a, b}
    scene.held["b asks"] = lambda m: (m.src, m.dst) == (b, c)
    yield (lambda: bool(scene.kept.get("b asks"))), 3.0
    scene.cut((a,), (b, c))
    scene.sim.crash(c)
    yield from scene.pause(0.002)
    scene.sim.restart(c)
    yield from scene.pause(0.002)
    scene.let_go("b asks")
    if (yield from scene.elected([b], 0.1, above=scene.term(a))) is not None and scene.role(a) == "leader":
        needed((yield from confirmed(scene, b, "new leader", seconds=0.1)))
        read = scene.ask(a, "read")
        yield has_answer(read), 0.3
    scene.sim.network = before


@between()
def standing_leader_reads(scene: Scene, a: str) -> Script:
    """The leader stands still while another is elected, and goes on: the first thing it meets is a read."""
    others = scene.others(a)
    scene.cut((a,), others)
    scene.sim.pause(a)
    new = yield from scene.settled(others, above=scene.term(a))
    needed((yield from confirmed(scene, new, "new leader", seconds=2.0)))
    read = scene.ask(a, "read")
    yield from scene.pause(0.06)
    scene.sim.resume(a)
    yield has_answer(read), 0.3


@between()
def late_leader_reads(scene: Scene, a: str) -> Script:
    """A leader's timers are late, so another is elected, and confirms a write; then a client asks the first for a read, and
    acknowledgements arrive of the last append_entries that it sent."""
    others = scene.others(a)
    scene.held["acknowledgements"] = lambda m: m.dst == a and m.type == "append_entries_res"
    yield from scene.pause(0.15)
    scene.sim.slow = frozenset((a,))
    yield from scene.pause(ARRIVED)
    scene.held.clear()
    scene.cut((a,), others)
    new = yield from scene.settled(others, above=scene.term(a))
    needed((yield from confirmed(scene, new, "new leader", seconds=2.0)))
    read = scene.ask(a, "read")
    yield from scene.pause(ARRIVED)
    scene.let_go("acknowledgements")
    yield has_answer(read), 0.3


@between()
def before_its_own_entry(scene: Scene, a: str) -> Script:
    """A node that has led before has an entry, and does not know that it is confirmed; it leads again, and is asked for a
    read before the other node has that entry."""
    others = scene.others(a)
    scene.cut((a,), others)
    b = yield from scene.settled(others, above=scene.term(a))
    [c] = [name for name in others if name != b]
    scene.sim.heal()
    needed((yield from confirmed(scene, b, "new leader", seconds=2.0)))
    yield from scene.pause(0.4)
    told: list[Sent] = []

    def after_the_entry(message: Sent) -> bool:
        """What the leader sends when the entry is under way."""
        if (message.src, message.dst) != (b, a):
            return False
        if not told and carries(message, "new leader again"):
            told.append(message)
            return False
        return bool(told)

    scene.cut((c,), (a, b))
    scene.dropped["that it is confirmed"] = after_the_entry
    needed((yield from confirmed(scene, b, "new leader again", seconds=2.0)))
    scene.sim.crash(b)
    scene.sim.heal()
    scene.no_candidates(c)
    needed((yield from scene.elected([a], 4.0, above=scene.term(b))))
    read = scene.ask(a, "read")
    yield has_answer(read), 1.0


@between()
def acknowledgements_of_an_earlier_term(scene: Scene, a: str) -> Script:
    """As `old_leader_reads`, in a leader's second term; after the read was asked for, acknowledgements arrive that
    followers sent late in its first one, and just before in its second."""
    b, c = scene.others(a)
    for _ in range(12):  # longer, and with more reads, than it will lead the second time: what counts has got further
        yield from scene.done("read")
        yield from scene.pause(0.15)
    scene.held["acknowledgements"] = lambda m: m.dst == a and m.type == "append_entries_res"
    yield from scene.pause(0.25)
    scene.held.clear()
    scene.cut((a,), (b, c))
    new = yield from scene.settled([b, c], above=scene.term(a))
    needed((yield from confirmed(scene, new, "another leader", seconds=2.0)))
    scene.sim.heal()
    yield from scene.pause(0.5)
    new = yield from scene.settled([b, c])
    scene.no_candidates(b, c)
    scene.sim.crash(new)
    needed((yield from scene.elected([a], 4.0, above=scene.term(new))))
    scene.candidates_again()
    scene.sim.restart(new)
    needed((yield from confirmed(scene, a, "second term", seconds=2.0)))
    scene.held["of its second term"] = lambda m: m.dst == a and m.type == "append_entries_res"
    yield from scene.pause(0.15)
    scene.held.clear()
    scene.cut((a,), (b, c))
    new = yield from scene.settled([b, c], above=scene.term(a))
    needed((yield from confirmed(scene, new, "last leader", seconds=2.0)))
    if scene.role(a) == "leader":
        read = scene.ask(a, "read")
        yield from scene.pause(0.055)
        scene.let_go("acknowledgements")
        scene.let_go("of its second term")
        yield has_answer(read), 0.3
