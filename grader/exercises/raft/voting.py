"""Votes: what is promised in a term holds over a crash, and an answer counts in its own term only. Elections of three nodes
in every interleaving, and scripts for what takes more of them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from typing import Any

from grader.exercises.common.scenes import ARRIVED, FAST, Script, Stuck
from grader.exercises.raft.judging import led_twice
from grader.exercises.raft.scene import Scene
from grader.lost import Lost
from grader.nodes.bench import NodeBench
from grader.nodes.locals import Locals
from grader.nodes.sim import cluster
from grader.nodes.states import Model, View
from grader.trace.story import Sent, Story
from grader.verdict import Diagnosis

STATES = 6_000  # of the search: what is known to break elections so shows within it
WALKS = 20, 60  # at random, for what takes a third term: so many of so many steps


def elections(bench: NodeBench, kind: str) -> list[Callable[[], Story]]:
    """Searches: one leader a term, whatever happens in which order. They raise Lost."""
    few = Model(cluster(3, kind), {}, timers=2, crashes=1, label="Every interleaving of 3 nodes, 2 timers and a crash")
    more = Model(cluster(3, kind), {}, 4, 1, 1, label="3 nodes, 4 timers, a crash and a copy, in random order")
    return [partial(_explored, bench, few, STATES, (0, 0)), partial(_explored, bench, more, 1, WALKS)]


def _explored(bench: NodeBench, model: Model, most: int, dives: tuple[int, int]) -> Story:
    leaders: dict[str, tuple[int, str, str]] = {}  # term and names, by what was said of them

    def judge(view: View) -> Diagnosis | None:
        led: dict[int, str] = {}
        for name, (role, term) in view.seen.items():
            if role != "leader":
                continue
            if term in led:
                had = f"Term {term} has two leaders: {led[term]} and {name}."
                leaders[had] = term, led[term], name
                return bench.found("wrong_result", had)
            led[term] = name
        return None

    try:
        return bench.explore(model, judge, _seen, most, dives).story
    except Lost as violation:
        had = violation.diagnosis.message
        if had in leaders and violation.picture is not None:
            violation.diagnosis = led_twice(bench, violation.picture, had, *leaders[had])
        raise


def _seen(locals_: Locals, number: int) -> Any:
    """A node's role and term."""
    state = locals_.known[number].state
    term = state.get("current_term")
    return state.get("role"), term if isinstance(term, int) else None


def _then_whole(script: Callable[[Scene], Script]) -> Callable[[Scene], Script]:
    """After a script all is whole again, and whoever can confirm a write is a cluster."""

    @wraps(script)
    def both(scene: Scene) -> Script:
        yield from script(scene)
        scene.held.clear()
        scene.whole()
        yield from scene.done("write", value="after all")

    return both


@_then_whole
def voter_restarts(scene: Scene) -> Script:
    """A voter votes, crashes and restarts, all in one election; then the other candidate of that term asks it."""
    return _voter(scene, "voter")


@_then_whole
def leader_restarts(scene: Scene) -> Script:
    """A candidate wins, crashes, restarts; then the other candidate of that term asks it for its vote."""
    return _voter(scene, "leader")


@_then_whole
def voter_asked_twice(scene: Scene) -> Script:
    """Two candidates of one term ask the same voter, which stays up."""
    return _voter(scene, "nobody")


def _voter(scene: Scene, who: str) -> Script:
    """The first candidate A wins term T by the vote of C; B, which knows of no such term, stands in it too."""
    first: list[Sent] = []
    other: list[str] = []

    def a_is(message: Sent) -> None:
        if message.type == "request_vote" and not first:
            first.append(message)
            a = message.src
            b, c = scene.others(a)
            other.extend((b, c))

    scene.seen.append(a_is)
    # From the first request on: A and C hear each other at once, B hears nobody, nobody hears B until it is let go.
    scene.held["B asks"] = lambda m: bool(first) and m.src == other[0]
    scene.dropped["B hears nothing"] = lambda m: bool(first) and m.dst == other[0]
    scene.dropped["C asks"] = lambda m: bool(first) and m.src == other[1] and m.type == "request_vote"
    scene.hurried["quick"] = lambda m: bool(first) and m.dst != other[0]
    crash_at_once = scene.rng.random() < 0.5
    if who == "voter" and crash_at_once:
        scene.seen.append(lambda m: _crash_voter(scene, m, first, other))
    yield (lambda: first), 5.0
    if not first:
        return
    a, (b, c) = first[0].src, other
    won = yield from scene.elected([a], 1.0)
    if won is None:
        return
    term = scene.term(a)
    asked, left_out = (a, c) if who == "leader" else (c, a)
    if who != "nobody":
        scene.sim.crash(asked)
    scene.dropped["left out"] = lambda m: left_out in (m.src, m.dst)
    yield (lambda: scene.term(b) >= term), 3.0
    if scene.term(b) != term or scene.role(b) != "candidate":
        return
    scene.sim.restart(asked)
    yield from scene.pause(0.005)
    scene.let_go("B asks", lambda m: m.dst == asked)
    scene.dropped.pop("B hears nothing")
    yield from scene.elected([b], 0.3)


def _crash_voter(scene: Scene, message: Sent, first: list[Sent], other: list[str]) -> None:
    """C crashes right after its first answer to A."""
    sent_by_c = other and message.src == other[1] and message.type == "request_vote_res"
    if sent_by_c and scene.sim.places[message.src].lives == 1 and message.dst == first[0].src:
        scene.sim.crash_after(message.src, scene.sim.places[message.src].done + 1)


@_then_whole
def a_vote_again(scene: Scene) -> Script:
    """The network brings one vote three times; the candidate has no other, and three of five elect another in its term."""
    first: list[Sent] = []
    scene.seen.append(lambda m: first.append(m) if m.type == "request_vote" and not first else None)
    reached: list[str] = []

    def lost(message: Sent) -> bool:
        """A and its one voter reach nobody else."""
        if not first:
            return False
        reached[:] = reached or [message.dst]
        pair = {first[0].src, reached[0]}
        return len(pair & {message.src, message.dst}) == 1

    scene.dropped["a pair"] = lost
    answers: list[Sent] = []
    scene.seen.append(
        lambda m: answers.append(m) if first and m.type == "request_vote_res" and m.dst == first[0].src else None
    )
    yield (lambda: answers), 5.0
    if not answers:
        return
    term, a = scene.term(first[0].src), first[0].src
    yield (lambda: answers[0].fate == "delivered"), 0.2
    for place in range(3):
        scene.sim.late(answers[0], 0.002 * (place + 1))
    yield from scene.elected(scene.others(*reached, a), 3.0, above=term - 1)


@_then_whole
def votes_of_two_terms(scene: Scene) -> Script:
    """A candidate of five reaches one voter in its first election, and another one in those after it. Two are no majority."""
    first: list[Sent] = []
    pair: list[str] = []

    def stands(message: Sent) -> None:
        if message.type == "request_vote" and not first:
            first.append(message)
            pair.extend((message.src, message.dst))

    scene.seen.append(stands)
    scene.dropped["a pair"] = lambda m: bool(first) and len({*pair} & {m.src, m.dst}) == 1
    yield (lambda: first), 5.0
    if not first:
        return
    a, b = pair
    term = scene.term(a)
    yield from scene.pause(2 * ARRIVED)  # the vote is there
    pair[1] = voter = scene.others(a, b)[0]
    yield (lambda: scene.role(a) == "leader"), 2.5
    if scene.role(a) == "leader" and scene.term(a) > term:
        raise Stuck(
            scene.bench.found(
                "wrong_result",
                f"{a} became leader of term {scene.term(a)}. Since {first[0].sent + 2 * ARRIVED:.2f} s it could talk to {voter} "
                f"only, so in that term nobody else can have voted for it: {b}, which it had reached before, could answer in "
                f"term {term} only. Count the votes of each election anew, and ask for more than half of all nodes.",
                expected="no leader with 2 of 5 votes", got=f"{a} leads term {scene.term(a)}",
            )
        )  # fmt: skip


@_then_whole
def late_votes(scene: Scene) -> Script:
    """Votes of one term arrive when their candidate stands in the next, in which the voters elect another."""
    first: list[Sent] = []
    scene.seen.append(lambda m: first.append(m) if m.type == "request_vote" and not first else None)
    scene.held["votes"] = lambda m: bool(first) and m.dst == first[0].src and m.type == "request_vote_res"
    scene.hurried["first"] = lambda m: m is first[0] if first else False
    yield (lambda: first), 5.0
    if not first:
        return
    a = first[0].src
    term = scene.term(a)
    others = scene.others(a)
    yield from scene.pause(0.06)  # the requests of the first round arrive
    scene.dropped["A is cut off"] = lambda m: (
        a in (m.src, m.dst) and not (m.type == "request_vote_res" and m.body.get("term") == term)
    )
    yield (lambda: scene.term(a) > term and scene.role(a) == "candidate"), 3.0
    if scene.role(a) == "candidate" and scene.term(a) > term:
        scene.let_go("votes")
    yield from scene.elected(others, 2.0, above=term)
    yield from scene.pause(2 * FAST)
