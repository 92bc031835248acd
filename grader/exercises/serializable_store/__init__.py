"""TxnStore(Node): transactions on lists whose keys live on different nodes, in one order that respects real time.

Papadimitriou 1979, "The serializability of concurrent database updates"; Bernstein, Hadzilacos, Goodman 1987,
"Concurrency control and recovery in database systems", chapters 3 and 7. Judged by what clients are told alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from random import Random

from grader.exercise import Check, Exercise
from grader.exercises.common.nodes import each, effects_of, held, names
from grader.exercises.serializable_store import doubt as doubt
from grader.exercises.serializable_store import fates as fates
from grader.exercises.serializable_store import faults as faults
from grader.exercises.serializable_store import models as models
from grader.exercises.serializable_store import plans as plans
from grader.exercises.serializable_store import tries as tries
from grader.exercises.serializable_store.judging import Judging
from grader.nodes.bench import NodeBench
from grader.nodes.plan import Plan
from grader.nodes.runs import judging
from grader.trace.story import Story
from grader.worlds.nodes import Nodes

SAFE = (Judging.shape, Judging.sound)
_safe = judging(Judging, *SAFE)
_ends = judging(Judging, *SAFE, Judging.settled)
_serves = judging(Judging, *SAFE, Judging.served)
_one_by_one = judging(Judging, Judging.shape, Judging.prompt, Judging.in_sequence, Judging.sound)
_side_by_side = judging(Judging, Judging.shape, Judging.prompt, Judging.sound)
STATES = 3_000  # of one search
DIVES = (40, 40)  # random walks, of so many steps
MOST_POINTS = 14  # of one node, after which it crashes
MOST_MESSAGES = 14  # each of which is lost, late or doubled


def _answers(bench: NodeBench) -> Story:
    shapes = ((3, ""), (2, "slow"), (5, ""), (4, "slow"))
    return bench.side_by_side(
        partial(bench.hold, each("works", plans.works, shapes)(bench), _one_by_one, fates.as_told),
        partial(bench.hold, each("side by side", plans.side_by_side, (3, 2, 5))(bench), _side_by_side),
    )[0]


_rounds = held(
    each("rounds", plans.lone_reads, (2, 3, 5)), Judging, Judging.shape, Judging.rounds, Judging.sound,
)  # fmt: skip


def _isolation(bench: NodeBench) -> Story:
    def drawn() -> Iterator[Plan]:
        yield from each("at once", plans.at_once, (True, False))(bench)
        yield from each("forks", plans.forks, ((0, 3, 8, 15), (24, 30, 36, 50)))(bench)
        yield from each("chain", plans.chain, ((1, 4, 10, 20), (36, 44, 60, 78)))(bench)
        yield plans.freed_by_another(Random("freed by another"), *bench.seeds("freed by another", 1))
        yield from each("mixed", plans.mixed, (2, 3, 5, 3))(bench)

    return bench.side_by_side(
        partial(bench.hold, each("crossing", plans.crossing, plans.CROSSINGS)(bench), _safe, fates.as_told),
        partial(bench.hold, drawn(), _safe, fates.as_told),
        partial(bench.hold, each("earlier answers", tries.earlier_answers, (None,))(bench), _ends, tries.staged(bench)),
        *(partial(models.explore, bench, models.crossing(bench, what), STATES) for what in ("reads", "skew", "after")),
    )[0]


def _contention(bench: NodeBench) -> Story:
    shapes = ((3, "appends", 1), (3, "reads", 8), (2, "appends", 8))
    judge = judging(Judging, Judging.shape, Judging.progress)
    return bench.hold(each("crowd", plans.crowd, shapes)(bench), judge, fates.as_told)


def _points(bench: NodeBench, make: Callable[..., Plan], shape: object, seed: int) -> dict[str, list[int]]:
    """After which of its sends and writes each node may crash, while the first transaction goes on."""
    counts: dict[str, int] = {}
    found: dict[str, list[int]] = {}
    for time, node, effects in effects_of(bench, make(Random("points"), shape, seed)):
        if 0.5 <= time < 2.0:
            before = counts.get(node, 0)
            counts[node] = before + effects
            found.setdefault(node, []).extend(range(before + 1, before + effects + 1))
    return {node: points[:MOST_POINTS] for node, points in found.items()}


def _crashes(bench: NodeBench) -> Story:
    def each_point() -> Iterator[Plan]:
        for shape in ((2, "owner"), (3, "other"), (3, "reads"), (2, "alone"), (2, "itself")):
            [seed] = bench.seeds(f"crash {shape}", 1)
            points = _points(bench, faults.one, shape, seed)
            for node, numbers in points.items():
                for number in numbers:
                    yield faults.one(Random("points"), shape, seed, (faults.crash(node, number),))

    def twice() -> Iterator[Plan]:
        rng, shape = Random("twice"), (3, "other")
        [seed] = bench.seeds("twice", 1)
        points = [(node, at) for node, all_of in _points(bench, faults.one, shape, seed).items() for at in all_of]
        for _ in range(12 if points else 0):
            (a, first), (b, second) = rng.choice(points), rng.choice(points)
            both = (faults.crash(a, first, rng.uniform(2, 3)), faults.crash(b, second, rng.uniform(2, 4)))
            yield faults.one(Random("points"), shape, seed, both if a != b else both[:1])
            again = (faults.crash(a, first), faults.crash_again(a, first + rng.randint(1, 4)))
            yield faults.one(Random("points"), shape, seed, again)
        for node, at in points:  # as soon as it does something again: what others wait for they wait for long
            again = (faults.crash(node, at), faults.crash_again(node, at + 1))
            yield faults.one(Random("points"), shape, seed, again)

    def cuts() -> Iterator[Plan]:
        for slow, seed in zip((False, True), bench.seeds("power", 2), strict=True):
            plan = faults.power_cut(Random("power"), seed, 3.5, slow)
            done = effects_of(bench, plan, fates.as_told)
            times = sorted({time for time, _, effects in done if 1.0 <= time < 2.0 and effects})[:30] or [1.01]
            for time in times if not slow else Random("slow").sample(times, min(8, len(times))):
                yield faults.power_cut(Random("power"), seed, time + 1e-6, slow)

    moments = [(what, 1.0 + after / 1000) for what in ("reads", "skew") for after in (4, 7, 12)]
    soon_again = each("soon again", faults.soon_again, (1.003, 1.008, 1.024, 1.046))
    return bench.side_by_side(
        partial(bench.hold, each_point(), _ends, fates.as_told),
        partial(bench.hold, twice(), _ends, fates.as_told),
        partial(bench.hold, cuts(), _ends, fates.as_told),
        partial(bench.hold, each("blink", faults.blink, moments)(bench), _ends, fates.as_told),
        partial(bench.hold, soon_again(bench), _ends, fates.as_told),
        partial(bench.hold, each("storm", faults.storm, (3, 2, 4, 3))(bench), _ends),
        partial(models.explore, bench, models.one(bench, crashes=1), STATES, DIVES),
        partial(models.explore, bench, models.one(bench, crashes=1, timers=1), STATES, DIVES),
    )[0]


def _network(bench: NodeBench) -> Story:
    def messages() -> Iterator[Plan]:
        shape = (3, "other")
        [seed] = bench.seeds("messages", 1)
        for fate in ("is lost", "comes 3 s late", "comes again 3 s later", "comes twice"):
            for number in range(1, MOST_MESSAGES + 1):
                yield faults.one(Random("points"), shape, seed, (), f"message {number} between nodes {fate}")

    def links() -> Iterator[Plan]:
        for shape in ((3, "other"), (2, "owner")):
            [seed] = bench.seeds(f"links {shape}", 1)
            for src in names(shape[0]):
                for dst in names(shape[0]):
                    for fate in ("are lost", "come 4 s late", "come again 4 s later") if src != dst else ():
                        for since, until in ((0.9, 3.5), (1.0035, 3.5)):
                            more = f"messages from {src} to {dst} from {since} to {until} s {fate}"
                            yield faults.one(Random("points"), shape, seed, (), more)

    cut_off = each("cut off", faults.cut_off, ((2, False), (3, False), (3, True)))
    return bench.side_by_side(
        partial(bench.hold, messages(), _ends, fates.as_told),
        partial(bench.hold, links(), _ends, fates.as_told),
        partial(bench.hold, cut_off(bench), _ends, faults.cut_after_vote),
        partial(bench.hold, each("in doubt", doubt.others_give_up, (None,))(bench), _ends, doubt.unheard(bench)),
        partial(bench.hold, each("unheard", faults.unheard, (3.0, 7.0))(bench), _ends, fates.as_told),
        partial(bench.hold, each("only read", faults.only_read, ("n1", "n2"))(bench), _serves, fates.as_told),
        partial(bench.hold, each("bad", faults.bad_network, (3, 2, 4, 5, 3))(bench), _ends, faults.badly),
        partial(models.explore, bench, models.one(bench, timers=1, copies=1), STATES, DIVES),
    )[0]


def _available(bench: NodeBench) -> Story:
    shapes = ((3, 1, "down"), (3, 2, "cut"), (5, 3, "down"), (4, 2, "cut"), (2, 1, "down"))
    return bench.side_by_side(
        partial(bench.hold, each("absent", faults.absent, shapes)(bench), _serves),
        partial(bench.hold, each("come back", faults.come_back, (3, 4, 3))(bench), _serves),
    )[0]


EXERCISE = Exercise(
    name="serializable_store",
    chapter="15",
    title="Transactions over several nodes, in one order",
    minutes=120,
    difficulty=3,
    cost="seconds",
    world=Nodes(("TxnStore",)),
    checks=(
        Check("answers", "Without faults: one after another, and on other keys, all commit", 3, _answers),
        Check("rounds", "A read-only transaction takes two round trips", 2, _rounds),
        Check("isolation", "Strict-serializable: transactions that cross, in every order", 5, _isolation),
        Check("contention", "Six clients, three keys: somebody commits, everybody is answered", 3, _contention),
        Check("crashes", "All or nothing, and durable: a crash after any send or write", 5, _crashes),
        Check("network", "The same when messages are lost, late and doubled", 4, _network),
        Check("available", "Absent nodes hinder only transactions on their keys", 3, _available),
    ),
)
