"""Store(Node), mode "CP" or "AP": one replicated register a key, and what a partition takes from it.

Gilbert, Lynch 2002, "Brewer's conjecture and the feasibility of consistent, available, partition-tolerant web services":
consistent is linearizable (`nodes.registers`), available is that every node which is up answers.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from random import Random

from grader.exercise import Check, Exercise
from grader.exercises.cap_store import judging as right
from grader.exercises.cap_store import plans as plans
from grader.exercises.cap_store.causes import View
from grader.exercises.common.nodes import each, held
from grader.nodes.bench import NodeBench
from grader.nodes.plan import Plan
from grader.worlds.nodes import Nodes


def _disturbed(bench: NodeBench) -> Iterator[Plan]:
    rng = bench.rng("half done")
    cuts = [(plans.interrupted, size, False) for size in (3, 5) * 5]
    cuts += [(plans.seen_once, size, False) for size in (3, 5, 3)] + [(plans.seen_by_two, 5, False)] * 2
    cuts += [(plans.seen_once, size, True) for size in (3, 5, 3)]  # what is written is false in Python
    counts = (("half done", 10), ("seen once", 3), ("seen by two", 2), ("seen once, false", 3))
    seeds = [seed for name, count in counts for seed in bench.seeds(name, count)]
    drawn = []
    for (cut, size, false), seed in zip(cuts, seeds, strict=True):
        pilot, state = plans.half_done(rng, size, seed, false), rng.getstate()
        cut(rng, pilot, ())  # draws as much whatever was sent: so all pilots are there before the first is played
        drawn.append((cut, pilot, state))
    played = bench.together([partial(bench.play, pilot) for _, pilot, _ in drawn])
    for (cut, pilot, state), run in zip(drawn, played, strict=True):
        own = Random()
        own.setstate(state)
        yield cut(own, pilot, run.sim.story.sent)
    for size, seed in zip((3, 5) * 5, bench.seeds("together", 10), strict=True):
        yield plans.together(rng, size, seed)
    yield from each("linearizable", plans.at_random, (3, 5) * 2)(bench)


def _halved(bench: NodeBench) -> Iterator[Plan]:
    yield from each("halves", plans.small_side, ((2, 2),) * 2)(bench)
    yield from each("random halves", partial(plans.at_random, halves=True), (4,) * 4)(bench)


def _crashed(bench: NodeBench) -> Iterator[Plan]:
    rng = bench.rng("down")
    points = [*range(1, 11), *(rng.randint(6, 20) for _ in range(4))]  # sends and writes before the crash
    for place, (effects, seed) in enumerate(zip(points, bench.seeds("down", 14), strict=True)):
        yield plans.down(rng, rng.choice((3, 4, 5)), effects, seed, after=place > 9)
    yield from each("shown and crashed", plans.shown_and_crashed, (3, 4))(bench)


def _healed(bench: NodeBench) -> Iterator[Plan]:
    rng, seeds = bench.rng("converged"), iter(bench.seeds("converged", 6))
    return (make(rng, size, next(seeds)) for size in (3, 4, 5) for make in (plans.converged, plans.tied))


def _followed(bench: NodeBench) -> Iterator[Plan]:
    yield from each("causal", plans.causal, (3, 5, 4, 3))(bench)
    yield from each("after a conflict", plans.after_a_conflict, (3, 4))(bench)


_SHAPES = ((1, 2), (1, 3), (2, 3), (1, 4), (1, 1, 1), (2, 2, 1))

EXERCISE = Exercise(
    name="cap_store",
    chapter="02",
    title="One store, one partition, two answers",
    minutes=60,
    difficulty=2,
    cost="seconds",
    world=Nodes(("Store",)),
    checks=(
        Check(
            "linearizable", "CP: linearizable while 3 or 5 nodes are cut at random", 4,
            held(_disturbed, View, right.proper, right.linearizable, right.begins),
        ),
        Check(
            "halves", "CP: 4 nodes cut into halves, and neither is a majority", 2,
            held(_halved, View, right.proper, right.refused, right.linearizable, right.begins),
        ),
        Check(
            "minority", "CP: a side without a majority answers errors, within 2 s", 3,
            held(
                each("minority", plans.small_side, _SHAPES), View, right.proper,
                right.refused, right.prompt_errors, right.linearizable, right.begins,
            ),
        ),
        Check(
            "works", "CP: a majority goes on, and all works again after healing", 3,
            held(each("works", plans.works, (3, 4, 5, 3)), View, right.proper, right.goes_on, right.linearizable),
        ),
        Check(
            "available", "AP: every node answers while the network is cut", 3,
            held(
                each("available", plans.available, (3, 4, 5, 3, 5), "av"), View, right.proper,
                right.available, right.own_words,
            ),
        ),
        Check(
            "down", "AP: a node crashes, the others answer, nothing confirmed is lost", 3,
            held(_crashed, View, right.proper, right.available, right.kept, right.agreed, right.own_words),
        ),
        Check(
            "converged", "AP: 5 s after healing all nodes return the same", 4,
            held(_healed, View, right.proper, right.agreed),
        ),
        Check(
            "causal", "AP: what is left is what no confirmed write followed", 3,
            held(_followed, View, right.proper, right.kept),
        ),
    ),
)  # fmt: skip
