"""Store(Node), mode "CP" or "AP": one replicated register a key, and what a partition takes from it.

Gilbert, Lynch 2002, "Brewer's conjecture and the feasibility of consistent, available, partition-tolerant web services":
consistent is linearizable (`_registers`), available is that every node which is up answers.
"""

from __future__ import annotations

from collections.abc import Iterator

from grader.exercise import Check, Exercise
from grader.exercises.cap_store import judging as judging
from grader.exercises.cap_store import plans as plans
from grader.nodes.bench import NodeBench
from grader.nodes.plan import Plan
from grader.trace.story import Story
from grader.worlds.nodes import Nodes


def _linearizable(bench: NodeBench) -> Story:
    judge = judging.pick(judging.linearizable, judging.begins)

    def drawn() -> Iterator[Plan]:
        rng = bench.rng("half done")
        for size, seed in zip((3, 5) * 5, bench.seeds("half done", 10), strict=True):
            pilot = plans.half_done(rng, size, seed)
            yield plans.interrupted(rng, pilot, bench.play(pilot).sim.story.sent)
        for size, seed in zip((3, 5) * 3, bench.seeds("together", 6), strict=True):
            yield plans.together(rng, size, seed)
        yield from _at_random(bench, "linearizable", (3, 5) * 2)

    return bench.hold(drawn(), judge)


def _at_random(bench: NodeBench, label: str, sizes: tuple[int, ...], halves: bool = False) -> Iterator[Plan]:
    rng = bench.rng(label)
    for size, seed in zip(sizes, bench.seeds(label, len(sizes)), strict=True):
        yield plans.at_random(rng, size, seed, halves)


def _halves(bench: NodeBench) -> Story:
    judge = judging.pick(judging.refused, judging.linearizable, judging.begins)

    def drawn() -> Iterator[Plan]:
        rng = bench.rng("halves")
        for seed in bench.seeds("halves", 2):
            yield plans.small_side(rng, (2, 2), seed)
        yield from _at_random(bench, "random halves", (4,) * 4, halves=True)

    return bench.hold(drawn(), judge)


def _minority(bench: NodeBench) -> Story:
    judge = judging.pick(judging.refused, judging.prompt_errors, judging.linearizable, judging.begins)

    def drawn() -> Iterator[Plan]:
        rng = bench.rng("minority")
        shapes = ((1, 2), (1, 3), (2, 3), (1, 4), (1, 1, 1), (2, 2, 1))
        for shape, seed in zip(shapes, bench.seeds("minority", len(shapes)), strict=True):
            yield plans.small_side(rng, shape, seed)

    return bench.hold(drawn(), judge)


def _works(bench: NodeBench) -> Story:
    judge = judging.pick(judging.goes_on, judging.linearizable)
    rng = bench.rng("works")
    sizes = (3, 4, 5, 3)
    drawn = (plans.works(rng, size, seed) for size, seed in zip(sizes, bench.seeds("works", 4), strict=True))
    return bench.hold(drawn, judge)


def _available(bench: NodeBench) -> Story:
    rng = bench.rng("available")
    sizes = (3, 4, 5, 3, 5)
    drawn = (plans.available(rng, size, seed) for size, seed in zip(sizes, bench.seeds("av", 5), strict=True))
    return bench.hold(drawn, judging.pick(judging.available, judging.own_words))


def _down(bench: NodeBench) -> Story:
    rng = bench.rng("down")
    points = [*range(1, 11), *(rng.randint(6, 20) for _ in range(4))]  # sends and writes before the crash
    drawn = (
        plans.down(rng, rng.choice((3, 4, 5)), effects, seed, after=place > 9)
        for place, (effects, seed) in enumerate(zip(points, bench.seeds("down", 14), strict=True))
    )
    return bench.hold(drawn, judging.pick(judging.available, judging.kept, judging.agreed))


def _converged(bench: NodeBench) -> Story:
    rng = bench.rng("converged")
    seeds = iter(bench.seeds("converged", 6))
    drawn = (make(rng, size, next(seeds)) for size in (3, 4, 5) for make in (plans.converged, plans.tied))
    return bench.hold(drawn, judging.pick(judging.agreed))


def _causal(bench: NodeBench) -> Story:
    rng = bench.rng("causal")
    sizes = (3, 5, 4, 3)
    drawn = (plans.causal(rng, size, seed) for size, seed in zip(sizes, bench.seeds("causal", 4), strict=True))
    return bench.hold(drawn, judging.pick(judging.kept))


EXERCISE = Exercise(
    name="cap_store",
    chapter="02",
    title="One store, one partition, two answers",
    minutes=60,
    difficulty=2,
    cost="seconds",
    world=Nodes(("Store",)),
    checks=(
        Check("linearizable", "CP: linearizable while 3 or 5 nodes are cut at random", 4, _linearizable),
        Check("halves", "CP: 4 nodes cut into halves, and neither is a majority", 2, _halves),
        Check("minority", "CP: a side without a majority answers errors, within 2 s", 3, _minority),
        Check("works", "CP: a majority goes on, and all works again after healing", 3, _works),
        Check("available", "AP: every node answers while the network is cut", 3, _available),
        Check("down", "AP: a node crashes, the others answer, nothing confirmed is lost", 3, _down),
        Check("converged", "AP: 5 s after healing all nodes return the same", 4, _converged),
        Check("causal", "AP: what is left is what no confirmed write followed", 3, _causal),
    ),
)
