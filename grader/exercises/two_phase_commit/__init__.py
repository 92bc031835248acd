"""Coordinator(Node) and Participant(Node): all of a transaction or nothing, whoever crashes when.

Gray 1978, "Notes on data base operating systems", section 5.8.3.3; Bernstein, Hadzilacos, Goodman 1987, "Concurrency
control and recovery in database systems", chapter 7. Judged by what clients are told and what participants read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain

from grader.exercise import Check, Exercise
from grader.exercises.common.nodes import each, effects_of, held, names
from grader.exercises.two_phase_commit import load
from grader.exercises.two_phase_commit import models as models
from grader.exercises.two_phase_commit import plans as plans
from grader.exercises.two_phase_commit.history import COORDINATOR
from grader.exercises.two_phase_commit.judging import Judging
from grader.nodes.bench import NodeBench
from grader.nodes.plan import Plan
from grader.nodes.runs import judging
from grader.trace.story import Story
from grader.worlds.nodes import Nodes

ALWAYS = (Judging.readable, Judging.unanimous, Judging.never_aborted, Judging.all_or_none)
_commit = held(
    each("commit", plans.works, (3, 2, 4, 1, 3)), Judging, Judging.shape, Judging.prompt, Judging.clean, *ALWAYS
)
_blocked = held(
    each("blocked", plans.cut_off, ((2, False), (2, True), (3, False), (3, True))), Judging,
    *ALWAYS, Judging.clean, Judging.decided, prepare=plans.cut_after_vote,
)  # fmt: skip
_always = judging(Judging, *ALWAYS)
_unhindered = judging(Judging, Judging.clean, *ALWAYS)
_ends = judging(Judging, *ALWAYS, Judging.clean, Judging.decided)
MOST_PAIRS = 16  # of crashes of different nodes
MOST_TWICE = 45  # of crashes of the same node, the second one while it starts again
MOST_POINTS = 24  # at which the coordinator crashes
MOST_STATES = 12_000  # of one search


def _conflict(bench: NodeBench) -> Story:
    rng, seeds = bench.rng("conflict"), bench.seeds("conflict", 14)
    judge = judging(Judging, Judging.locked, Judging.one_of_two, Judging.prompt, Judging.clean, *ALWAYS)
    meeting = [plans.meet(rng, seed, restarts=place > 3) for place, seed in enumerate(seeds[:7])]
    refused = [plans.refused(rng, seed) for seed in bench.seeds("refused", 2)]
    crowds = [plans.crowd(rng, rng.choice((2, 3)), seed) for seed in seeds[7:]]
    outvoted = [plans.outvoted(rng, seed) for seed in bench.seeds("outvoted", 1)]
    no_first = [plans.no_then_yes(rng, seed) for seed in bench.seeds("no, then yes", 1)]
    return bench.side_by_side(
        partial(bench.hold, meeting, judge, plans.slowly),
        partial(bench.hold, refused, judge, plans.slowly),
        partial(bench.hold, crowds, judge),
        partial(bench.hold, outvoted, judge, plans.slowly),
        partial(bench.hold, no_first, judge, plans.yes_after_no),
    )[0]


def _atomic(bench: NodeBench) -> Story:
    searched = (models.one(2, timers=1, crashes=1), models.one(2, crashes=2), models.one(3, crashes=1))
    return bench.side_by_side(*(partial(models.explore, bench, model, MOST_STATES) for model in searched))[-1]


def _coordinator_crashes(
    bench: NodeBench, label: str, make: Callable[..., Plan], when: tuple[float, float], until: float
) -> Iterator[Plan]:
    """A plan for each of the first sends and writes of the coordinator in this time: it crashes right after that."""
    [seed] = bench.seeds(label, 1)
    steps = effects_of(bench, make(bench.rng(label), seed), plans.slowly)
    own = [time for time, node, effects in steps if node == COORDINATOR for _ in range(effects)]
    points = [number for number, time in enumerate(own, 1) if when[0] <= time < when[1]]
    for effects in points[:MOST_POINTS]:
        yield make(bench.rng(label), seed, (plans.crash(COORDINATOR, effects, until),))


def _durable(bench: NodeBench) -> Story:
    def drawn() -> Iterator[Plan]:
        rng = bench.rng("durable")
        for count, seed in zip((2, 3), bench.seeds("durable", 2), strict=True):
            state = rng.getstate()
            done = effects_of(bench, plans.power_cut(rng, count, seed, (4.0,)))
            times = [time for time, _, effects in done if 1.0 <= time < 2.0 and effects][:40] or [1.05]
            for time in times if count == 2 else rng.sample(times, min(8, len(times))):
                rng.setstate(state)  # the same run up to the cut
                yield plans.power_cut(rng, count, seed, (time + 1e-6,))

    cuts = zip((1.03, 1.13), bench.seeds("slowly", 2), strict=True)
    slowly = (plans.power_cut(bench.rng("slowly"), 3, seed, (cut,), slow=True) for cut, seed in cuts)
    return bench.side_by_side(
        partial(bench.hold, drawn(), _always), partial(bench.hold, slowly, _always, plans.slowly)
    )[0]


def _termination(bench: NodeBench) -> Story:
    def drawn() -> Iterator[Plan]:
        rng, (seed, _) = bench.rng("termination"), bench.seeds("termination", 2)
        state = rng.getstate()
        whole = plans.crashing(rng, 2, seed)
        counts = {member.name: 0 for member in whole.members}
        for time, node, effects in effects_of(bench, whole):
            counts[node] += effects * (time < 3.0)  # in the first transaction
        points = [(node, effects) for node, most in counts.items() for effects in range(1, min(most, 30) + 1)]
        points = points or [(COORDINATOR, 1)]
        for node, effects in points:
            rng.setstate(state)  # the same run up to the crash
            yield plans.crashing(rng, 2, seed, (plans.crash(node, effects),))
        for _ in range(MOST_PAIRS):
            (one, first), (other, second) = rng.choice(points), rng.choice(points)
            both = (plans.crash(one, first, rng.uniform(2, 4)), plans.crash(other, second, rng.uniform(2, 4)))
            yield plans.crashing(rng, rng.choice((2, 3)), rng.randrange(2**31), both if one != other else both[:1])
        one = rng.choice(names(2))
        twice = [(node, at, more) for node, at in points if node in (COORDINATOR, one) for more in (1, 2, 3)]
        for node, effects, more in rng.sample(twice, min(len(twice), MOST_TWICE)):
            now = rng.getstate()
            rng.setstate(state)
            yield plans.crashing(rng, 2, seed, (plans.crash(node, effects), plans.crash_again(node, effects + more)))
            rng.setstate(now)

    refused = _coordinator_crashes(bench, "refused", plans.refused_and_crashed, (1.012, 1.1), 3.0)
    freed = _coordinator_crashes(bench, "freed", partial(plans.refused_and_crashed, freed=True), (1.16, 1.2), 3.0)
    many = (load.many_in_doubt(bench.rng("many in doubt"), seed) for seed in bench.seeds("many in doubt", 1))
    given_up = _coordinator_crashes(bench, "given up", plans.given_up, (1.0, plans.GIVEN_UP), plans.GIVEN_UP)
    down = (plans.given_up(bench.rng("one of three"), seed, count=3) for seed in bench.seeds("one of three", 1))
    no_first = (plans.no_then_yes(bench.rng("no first"), seed) for seed in bench.seeds("no first", 1))
    return bench.side_by_side(
        partial(bench.hold, drawn(), _ends),
        partial(bench.hold, chain(refused, freed, many), _ends, plans.slowly),
        partial(bench.hold, given_up, _ends),
        partial(bench.hold, down, _ends),
        partial(bench.hold, no_first, _ends, plans.yes_after_no),  # what is decided stays so, also where nobody crashes
        partial(bench.hold, load.crashing(bench), _ends),
    )[0]


def _network(bench: NodeBench) -> Story:
    rng = bench.rng("network")
    drawn = [plans.bad_network(rng, rng.choice((2, 3)), seed) for seed in bench.seeds("network", 8)]
    seeds = enumerate(bench.seeds("late copies", 6))
    late = [plans.late_copies(rng, 2 + seed % 2, seed, restarts=place > 3) for place, seed in seeds]
    again = [plans.yes_again(rng, seed) for seed in bench.seeds("a yes again", 2)]
    twice = [plans.asked_twice(rng, seed) for seed in bench.seeds("asked twice", 1)]
    late_or_lost = [
        make(rng, seed) for make in (plans.unheard, plans.votes_too_late) for seed in bench.seeds("given up", 1)
    ]
    return bench.side_by_side(
        partial(bench.hold, drawn, _ends, plans.badly),
        partial(bench.hold, late, _ends, plans.with_late_copies),
        partial(bench.hold, again, _always, plans.three_times),
        partial(bench.hold, twice, _unhindered, plans.twice),
        partial(bench.hold, late_or_lost, _ends, plans.until_given_up),
        partial(models.explore, bench, models.one(2, timers=1, copies=1), MOST_STATES // 4),
        partial(bench.hold, load.losing(bench), _ends, load.lose),
    )[0]


EXERCISE = Exercise(
    name="two_phase_commit",
    chapter="12",
    title="All of it or nothing, whichever process crashes",
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
