"""Pictures of what Spark does: a run's stages, an RDD's lineage partition by partition, a query's plan as text.

stages(run)           boxes of what is done in one go, and the bytes that pass between them
lineage(rdd, "...")   from which partitions each partition is made: Spark's own dependencies, asked one by one
plan(frame)           the physical plan without its numbers, as last run where it adapts
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from courselib.sparkrun import Ran, Stage
from courselib.svg import COLOURS, FAINT, GRID, INK, WIDTH, Plot, caption, document, si

NARROW, WIDE, CACHED = COLOURS[0], COLOURS[1], COLOURS[2]
LINE, HEAD, PAD, GAP = 17, 40, 12, 86
QUERY_STAGES = ("ResultQueryStage", "ShuffleQueryStage", "BroadcastQueryStage", "TableCacheQueryStage")


def stages(run: Ran, title: str = "The stages of the run") -> Plot:
    """Each stage as a box with what it does in one go; arrows are shuffles, with their bytes."""
    shown = {stage.number: stage for stage in run.stages}  # of several attempts, the last
    depth = _depths({number: stage.parents for number, stage in shown.items()})
    columns: dict[int, list[Stage]] = {}
    for stage in shown.values():
        columns.setdefault(depth[stage.number], []).append(stage)
    wide = min(210.0, (WIDTH - 32 - GAP * (len(columns) - 1)) / len(columns))
    places: dict[int, tuple[float, float, float]] = {}  # left, top, height
    for column, members in columns.items():
        y = 48.0
        for stage in members:
            tall = float(HEAD + LINE * len(_lines(stage)) + PAD)
            places[stage.number] = (16 + column * (wide + GAP), y, tall)
            y += tall + 22
    bottom = max(y + tall for _, y, tall in places.values())
    parts: list[str] = []
    for stage in shown.values():
        x, y, tall = places[stage.number]
        for parent in stage.parents:
            if parent in places:
                parts += _shuffle(shown[parent], places[parent], wide, (x, y + tall / 2))
        parts += _box(stage, x, y, wide, tall)
    return Plot(document(title, parts, bottom + 16), title)


def _depths(parents: Mapping[int, Sequence[int]]) -> dict[int, int]:
    """How many steps each is away from the beginning, along the longest way."""
    depth: dict[int, int] = {}
    for number in sorted(parents):
        depth[number] = 1 + max((depth[parent] for parent in parents[number] if parent in depth), default=-1)
    return depth


def _lines(stage: Stage) -> list[tuple[str, bool]]:
    """What the stage does, in order; the same thing several times in a row is said once."""
    lines: list[tuple[str, bool]] = []
    for rdd in stage.rdds:
        if not lines or lines[-1][0] != rdd.name:
            lines.append((rdd.name, rdd.cached))
    return lines[-9:]


def _box(stage: Stage, x: float, y: float, wide: float, tall: float) -> Iterator[str]:
    dash = "" if stage.ran else 'stroke-dasharray="5 4"'
    yield (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{wide:.1f}" height="{tall:.1f}" rx="5" fill="#f5f7fa" stroke="{FAINT}" '
        f"{dash}/>"
    )
    again = f", attempt {stage.attempt + 1}" if stage.attempt else ""
    tasks = f"{len(stage.tasks)} task{'s' * (len(stage.tasks) != 1)}"
    yield caption(x + 10, y + 18, f"stage {stage.number}{again}", "start", INK, 12)
    yield caption(x + wide - 10, y + 18, tasks if stage.ran else "skipped", "end", INK, 12)
    for number, (name, cached) in enumerate(_lines(stage)):
        mark = " (cached)" if cached else ""
        fits = int(wide / 6.6)
        yield caption(x + 18, y + HEAD + 2 + LINE * number, (name + mark)[:fits], "start", CACHED if cached else FAINT)


def _shuffle(
    parent: Stage, place: tuple[float, float, float], wide: float, to: tuple[float, float]
) -> Iterator[str]:  # fmt: skip
    x1, y1 = place[0] + wide, place[1] + place[2] / 2
    x2, y2 = to
    yield _arrow(x1 + 2, y1, x2 - 3, y2, WIDE, 2)
    if parent.ran:
        yield caption((x1 + x2) / 2, (y1 + y2) / 2 - 9, si(parent.written, "B"), "middle", INK)


def _arrow(x1: float, y1: float, x2: float, y2: float, colour: str, width: float = 1.0) -> str:
    return (
        f'<path d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}" stroke="{colour}" stroke-width="{width}" fill="none"/>'
        f'<circle cx="{x2:.1f}" cy="{y2:.1f}" r="{1.6 * width:.1f}" fill="{colour}"/>'
    )


@dataclass(frozen=True)
class Step:
    """RDDs of one-to-one dependencies, one after the other, as Spark pipelines them."""

    number: int
    names: tuple[str, ...]
    partitions: int
    parents: tuple[tuple[int, bool, tuple[tuple[int, int], ...]], ...]  # step, wide, (from, to) of partitions


def steps(rdd: Any) -> list[Step]:
    """The lineage of `rdd`, sources first. What is asked of Spark are its `dependencies` and their `getParents`."""
    found: dict[int, Step] = {}

    def visit(one: Any) -> int:
        names = [_name(one)]
        partitions = one.getNumPartitions()
        below = _dependencies(one)
        while len(below) == 1 and _kind(below[0]) == "OneToOneDependency":
            one = below[0].rdd()
            names.append(_name(one))
            below = _dependencies(one)
        if one.id() not in found:
            parents = []
            for dependency in below:
                number = visit(dependency.rdd())
                wide = _kind(dependency) == "ShuffleDependency"
                parents.append((number, wide, tuple(_edges(dependency, partitions, wide))))
            found[one.id()] = Step(one.id(), tuple(reversed(names)), partitions, tuple(parents))
        return int(one.id())

    visit(rdd._jrdd.rdd())
    return list(found.values())


def _dependencies(rdd: Any) -> list[Any]:
    below = rdd.dependencies()
    return [below.apply(number) for number in range(below.size())]


def _kind(dependency: Any) -> str:
    return str(dependency.getClass().getSimpleName())


def _name(rdd: Any) -> str:
    return str(rdd.getClass().getSimpleName())


def _edges(dependency: Any, partitions: int, wide: bool) -> Iterator[tuple[int, int]]:
    for to in range(partitions):
        if wide:
            yield from ((since, to) for since in range(dependency.rdd().getNumPartitions()))
        else:
            parents = dependency.getParents(to)
            yield from ((int(parents.apply(number)), to) for number in range(parents.size()))


def lineage(rdd: Any, title: str = "From which partitions each partition is made", names: Sequence[str] = ()) -> Plot:
    """The partitions of `rdd` and of all that it is made of; blue: narrow, stays on its machine; orange: a shuffle.

    `names` replace Spark's own for the steps, sources first.
    """
    found = steps(rdd)
    depth = _depths(_parents(found))
    columns: dict[int, list[Step]] = {}
    for step in found:
        columns.setdefault(depth[step.number], []).append(step)
    across = (WIDTH - 120) / max(1, len(columns) - 1)
    spots: dict[tuple[int, int], tuple[float, float]] = {}
    parts, bottom = [], 0.0
    for column, members in columns.items():
        x, y = (60 + across * column if len(columns) > 1 else WIDTH / 2), 66.0
        for step in members:
            label = names[found.index(step)] if names else step.names[-1]
            parts.append(caption(x, y, label, "middle", INK, 12))
            for part in range(step.partitions):
                spots[step.number, part] = (x, y + 20 + 24 * part)
            y += 24 * step.partitions + 44
        bottom = max(bottom, y - 30)
    for step in found:
        for parent, wide, edges in step.parents:
            for since, to in edges:
                (x1, y1), (x2, y2) = spots[parent, since], spots[step.number, to]
                parts.append(_arrow(x1 + 9, y1, x2 - 11, y2, WIDE if wide else NARROW, 1.3))
    for x, y in spots.values():
        parts.append(
            f'<rect x="{x - 8:.1f}" y="{y - 8:.1f}" width="16" height="16" rx="3" fill="{GRID}" stroke="{INK}"/>'
        )
    for x, colour, text in (
        (16.0, NARROW, "narrow: from few, named partitions"),
        (270.0, WIDE, "wide: from all, by a shuffle"),
    ):
        parts += [_arrow(x, 42, x + 24, 42, colour, 1.6), caption(x + 34, 46, text, "start", INK)]
    return Plot(document(title, parts, bottom + 10), title)


def _parents(found: Sequence[Step]) -> dict[int, list[int]]:
    """The parents of each step, by positions that grow along the lineage."""
    return {step.number: [parent for parent, _, _ in step.parents] for step in found}


class Text:
    """Lines that a notebook sets as they are, in letters of one width."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = list(lines)

    def _repr_markdown_(self) -> str:
        return "\n".join(["```", *self.lines, "```"])

    def __repr__(self) -> str:
        return "\n".join(self.lines)


def plan(frame: Any, width: int = 150) -> Text:
    """The physical plan of a DataFrame, leaves last, without expression ids; the final one if it has been run."""
    lines = [("   " * (depth - 1) + "+- " if depth else "") + text for depth, text in _plan_lines(frame)]
    return Text([line if len(line) <= width else line[: width - 3] + "..." for line in lines])


def operators(frame: Any) -> list[str]:
    """The names of the operators in that plan, from the top: ["SortMergeJoin", "Sort", "Exchange", ...]."""
    found = (re.match(r"[A-Za-z]+", text) for _, text in _plan_lines(frame))
    return [match.group() for match in found if match]


def joins_in(frame: Any) -> int:
    """How many joins Spark has to plan for a DataFrame: those of cached and of checkpointed frames are behind it."""
    logical = str(frame._jdf.queryExecution().withCachedData().toString())
    return sum(re.match(r"[ :|+-]*Join ", line) is not None for line in logical.splitlines())


def _plan_lines(frame: Any) -> list[tuple[int, str]]:
    """Each operator with its depth. Those that only say how far an adaptive query has come are left out."""
    lines = str(frame._jdf.queryExecution().executedPlan().toString()).splitlines()
    final = next((number for number, line in enumerate(lines) if "== Final Plan ==" in line), None)
    if final is not None:
        after = next((n for n, line in enumerate(lines) if "== Initial Plan ==" in line), len(lines))
        lines = lines[final + 1 : after]
    kept: list[tuple[int, str]] = []
    gone: list[int] = []  # depths of those left out that are above this line
    for line in lines:
        text = line.lstrip(" :|+-*")
        depth = (len(line) - len(text)) // 3
        text = re.sub(r"^\(\d+\) ", "", text)
        gone = [other for other in gone if other < depth]
        if text.startswith(("AdaptiveSparkPlan", *QUERY_STAGES)):
            gone.append(depth)
        elif text:
            kept.append((depth - len(gone), _plain(text)))
    least = min(depth for depth, _ in kept)
    return [(depth - least, text) for depth, text in kept]


def _plain(text: str) -> str:
    text = re.sub(r"#\d+L?", "", text)
    text = re.sub(r",? ?\[plan_id=\d+\]|, ENSURE_REQUIREMENTS|HashedRelationBroadcastMode\(.*\)", "", text)
    text = re.sub(r"Batched: \w+, |DataFilters: \[[^\]]*\], |PartitionFilters: \[[^\]]*\], ", "", text)
    return re.sub(r"Format: \w+, Location: \w+\(\d+ paths?\)\[[^\]]*\], ", "", text).rstrip()
