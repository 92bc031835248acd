"""What exercises about nodes share: checks that judge views of runs, plans with seeds of their own, runs that end."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from grader.lost import Lost
from grader.nodes.bench import NodeBench
from grader.nodes.life import Step
from grader.nodes.plan import Plan, Played, Prepare
from grader.nodes.runs import Run, judging
from grader.nodes.sim import Member
from grader.trace.story import Sent, Story
from grader.verdict import Diagnosis

R = TypeVar("R", bound=Run)
T = TypeVar("T")
Plans = Callable[[NodeBench], Iterable[Plan]]
Check = Callable[[NodeBench], Story]


def held(
    drawn: Plans, view: Callable[[Played], R], *judges: Callable[[R], Diagnosis | None],
    prepare: Prepare = lambda _: None,
) -> Check:  # fmt: skip
    """A check: what the first of these finds wrong in the view of a run of any of the plans."""
    return lambda bench: bench.hold(drawn(bench), judging(view, *judges), prepare)


def each(label: str, make: Callable[[random.Random, T, int], Plan], shapes: Sequence[T], seeds: str = "") -> Plans:
    """A plan for each of these sizes (or whatever the shape of a run is), with a seed of its own."""

    def drawn(bench: NodeBench) -> Iterator[Plan]:
        rng = bench.rng(label)
        for shape, seed in zip(shapes, bench.seeds(seeds or label, len(shapes)), strict=True):
            yield make(rng, shape, seed)

    return drawn


def names(count: int) -> list[str]:
    """n1, n2 and so on."""
    return [f"n{number}" for number in range(1, count + 1)]


def skewed(members: Iterable[Member], rng: random.Random, least: float = 0.0) -> tuple[Member, ...]:
    """These nodes, with clocks that are set otherwise, and a little fast or slow."""
    return tuple(replace(one, offset=rng.uniform(least, 100), rate=rng.uniform(0.99, 1.01)) for one in members)


def effects_of(bench: NodeBench, plan: Plan, prepare: Prepare = lambda _: None) -> list[tuple[float, str, int]]:
    """When which node did something in a run of this plan, and how often it sent or wrote then."""
    done: list[tuple[float, str, int]] = []

    def listen(played: Played) -> None:
        def look(node: str, step: Step) -> None:
            done.append((played.sim.time, node, sum(effect[0] in ("send", "write") for effect in step.effects)))

        played.sim.on_step.append(look)
        prepare(played)

    bench.play(plan, listen)
    return done


def bad_messages(lost: float, twice: float, quick: float) -> Prepare:
    """Lets these shares of messages be lost, and come twice, until a second before a run's network is healed; others, of
    which this share is quick, come up to a second late."""

    def prepare(played: Played) -> None:
        rng, healed = random.Random(f"bad {played.plan.seed}"), played.plan.healed or 0.0

        def late() -> float:
            return rng.uniform(0.001, 0.05) if rng.random() < quick else rng.uniform(0.05, 1.0)

        def route(sent: Sent) -> list[float] | None:
            if sent.sent >= healed - 1:
                return None
            if rng.random() < lost:
                return []
            return [late(), late()] if rng.random() < twice else [late()]

        played.sim.route = route

    return prepare


def cuts(story: Story) -> list[str]:
    """Who could not reach whom, and when."""
    return [
        f"{' and '.join('{' + ', '.join(group) + '}' for group in fault.groups)} could not reach each other from "
        f"{fault.since:.2f} s to {fault.until:.2f} s"
        for fault in story.faults if fault.what == "partition"
    ]  # fmt: skip


def bounded(played: Played, most: int) -> None:
    """End a run in which nodes have sent more than `most` messages: sooner than by the simulator's own limit, which is
    meant for all, and far beyond what any right solution sends."""
    sim = played.sim

    def look(node: str, step: Step) -> None:
        if len(sim.story.sent) > most:
            line = next((effect[-1] for effect in reversed(step.effects) if effect[0] == "send"), None)
            where = f" (line {line})" if line else ""
            text = (
                f"The nodes sent more than {most:,} messages by {sim.time:.2f} s, so the run was ended. The last came from "
                f"{node}{where}. Check that messages do not cause further messages forever."
            )
            raise Lost.because("timeout", text, file=sim.file, line=line, expected=f"at most {most}", got="more")

    sim.on_step.append(look)
