"""Coordinator(Node) and Participant(Node): all of a transaction or nothing, whoever crashes when.

Gray 1978, "Notes on data base operating systems", section 5.8.3.3; Bernstein, Hadzilacos, Goodman 1987, "Concurrency
control and recovery in database systems", chapter 7. Judged by what clients are told and what participants read.
"""

from __future__ import annotations

from collections.abc import Iterator

from grader.exercise import Check, Exercise
from grader.exercises.two_phase_commit import models as models
from grader.exercises.two_phase_commit import plans as plans
from grader.exercises.two_phase_commit.history import COORDINATOR
from grader.exercises.two_phase_commit.judging import Judging, pick
from grader.nodes.bench import NodeBench
from grader.nodes.life import Step
from grader.nodes.plan import Plan, Played
from grader.trace.story import Story
from grader.worlds.nodes import Nodes

ALWAYS = (Judging.readable, Judging.unanimous, Judging.never_aborted, Judging.all_or_none)
MOST_PAIRS = 16  # of crashes of different nodes
MOST_TWICE = 45  # of crashes of the same node, the second one while it starts again
MOST_STATES = 12_000  # of one search


def _commit(bench: NodeBench) -> Story:
    rng = bench.rng("commit")
    counts = (3, 2, 4, 1, 3)
    drawn = (plans.works(rng, count, seed) for count, seed in zip(counts, bench.seeds("commit", 5), strict=True))
    judge = pick(bench, Judging.shape, Judging.prompt, Judging.clean, *ALWAYS)
    return bench.hold(drawn, judge)


def _conflict(bench: NodeBench) -> Story:
    rng = bench.rng("conflict")
    seeds = bench.seeds("conflict", 14)
    judge = pick(bench, Judging.locked, Judging.one_of_two, Judging.prompt, Judging.clean, *ALWAYS)
    meeting = (plans.meet(rng, seed, restarts=place > 3) for place, seed in enumerate(seeds[:7]))
    shown = bench.hold(meeting, judge, plans.slowly)
    bench.hold((plans.crowd(rng, rng.choice((2, 3)), seed) for seed in seeds[7:]), judge)
    return shown


def _atomic(bench: NodeBench) -> Story:
    models.explore(bench, models.one(2, timers=1, crashes=1), MOST_STATES)
    models.explore(bench, models.one(2, crashes=2), MOST_STATES)
    return models.explore(bench, models.one(3, crashes=1), MOST_STATES)


def _durable(bench: NodeBench) -> Story:
    rng = bench.rng("durable")
    first, second = bench.seeds("durable", 2)
    judge = pick(bench, *ALWAYS)

    def drawn() -> Iterator[Plan]:
        for count, seed in ((2, first), (3, second)):
            state = rng.getstate()
            times = _handled(bench, plans.power_cut(rng, count, seed, (4.0,)))
            for time in times if count == 2 else rng.sample(times, min(8, len(times))):
                rng.setstate(state)  # the same run up to the cut
                yield plans.power_cut(rng, count, seed, (time + 1e-6,))

    return bench.hold(drawn(), judge)


def _handled(bench: NodeBench, plan: Plan) -> list[float]:
    """When nodes did something between the begin of the first transaction and 1 s later."""
    times: list[float] = []

    def listen(played: Played) -> None:
        def look(node: str, step: Step) -> None:
            if 1.0 <= played.sim.time < 2.0 and any(effect[0] in ("send", "write") for effect in step.effects):
                times.append(played.sim.time)

        played.sim.on_step.append(look)

    bench.play(plan, listen)
    return times[:40] or [1.05]


def _termination(bench: NodeBench) -> Story:
    rng = bench.rng("termination")
    seeds = bench.seeds("termination", 2)
    judge = pick(bench, *ALWAYS, Judging.clean, Judging.decided)

    def drawn() -> Iterator[Plan]:
        state = rng.getstate()
        whole = plans.crashing(rng, 2, seeds[0])
        counts = _effects(bench, whole)
        points = [(node, effects) for node, most in counts.items() for effects in range(1, most + 1)]
        points = points or [(COORDINATOR, 1)]
        for node, effects in points:
            rng.setstate(state)  # the same run up to the crash
            yield plans.crashing(rng, 2, seeds[0], (plans.crash(node, effects),))
        for _ in range(MOST_PAIRS):
            (one, first), (other, second) = rng.choice(points), rng.choice(points)
            both = (plans.crash(one, first, rng.uniform(2, 4)), plans.crash(other, second, rng.uniform(2, 4)))
            yield plans.crashing(rng, rng.choice((2, 3)), rng.randrange(2**31), both if one != other else both[:1])
        one = rng.choice(plans.participants(2))
        twice = [(node, at, more) for node, at in points if node in (COORDINATOR, one) for more in (1, 2, 3)]
        for node, effects, more in rng.sample(twice, min(len(twice), MOST_TWICE)):
            names = rng.getstate()
            rng.setstate(state)
            yield plans.crashing(
                rng, 2, seeds[0], (plans.crash(node, effects), plans.crash_again(node, effects + more))
            )
            rng.setstate(names)

    return bench.hold(drawn(), judge)


def _effects(bench: NodeBench, plan: Plan) -> dict[str, int]:
    """How often each node sends or writes in the first transaction."""
    counts = {member.name: 0 for member in plan.members}

    def listen(played: Played) -> None:
        def look(node: str, step: Step) -> None:
            if played.sim.time < 3.0:
                counts[node] += sum(effect[0] in ("send", "write") for effect in step.effects)

        played.sim.on_step.append(look)

    bench.play(plan, listen)
    return {node: min(count, 30) for node, count in counts.items()}


def _blocked(bench: NodeBench) -> Story:
    rng = bench.rng("blocked")
    seeds = bench.seeds("blocked", 4)
    drawn = (plans.cut_off(rng, 2 + place // 2, seed, place % 2 == 1) for place, seed in enumerate(seeds))
    return bench.hold(drawn, pick(bench, *ALWAYS, Judging.clean, Judging.decided), plans.cut_after_vote)


def _network(bench: NodeBench) -> Story:
    rng = bench.rng("network")
    seeds = bench.seeds("network", 8)
    judge = pick(bench, *ALWAYS, Judging.clean, Judging.decided)
    drawn = (plans.bad_network(rng, rng.choice((2, 3)), seed) for seed in seeds)
    shown = bench.hold(drawn, judge, plans.badly)
    late = (plans.late_copies(rng, 2 + seed % 2, seed) for seed in bench.seeds("late copies", 4))
    bench.hold(late, judge, plans.with_late_copies)
    models.explore(bench, models.one(2, timers=1, copies=1), MOST_STATES // 4)
    return shown


EXERCISE = Exercise(
    name="two_phase_commit",
    chapter="12",
    title="All of it or nothing, whoever crashes",
    minutes=90,
    difficulty=3,
    cost="seconds",
    world=Nodes(("Coordinator", "Participant")),
    checks=(
        Check("commit", "Without faults: all is committed, answered and read", 3, _commit),
        Check("conflict", "Votes no exactly when a prepared transaction holds a key", 4, _conflict),
        Check("atomic", "All or none: a crash after any send or write, a timer at any time", 5, _atomic),
        Check("durable", "What a client was told survives power cuts of all nodes", 3, _durable),
        Check("termination", "5 s after the last restart all is decided and unlocked", 5, _termination),
        Check("blocked", "After its yes a participant waits, 20 s alone, and still reads", 3, _blocked),
        Check("network", "Messages lost, late and doubled: atomic, and it ends", 3, _network),
    ),
)
