"""The picture of an engine that serves requests: a lane for each, what each step computes, and whose each block is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from grader.trace import style
from grader.trace.labels import fit, width
from grader.trace.paper import Heading
from grader.trace.style import BAD, COMPUTE, GRID, INK, LEGEND_ROW, MESSAGE, MOVING, QUIET, SOFT, WAIT, WAIT_PALE, text

Does = Literal["waits", "prompt", "again", "decodes", "left out"]
WIDE, ROW, BATCH, MOST_CACHE = 1000, 18, 54, 190
_FILLS: dict[Does, str] = {
    "waits": WAIT_PALE, "prompt": COMPUTE, "again": WAIT, "decodes": MOVING, "left out": style.BAD_PALE,
}  # fmt: skip
_WORDS: dict[Does, str] = {
    "waits": "waits", "prompt": "computes its prompt", "again": "computed anew", "decodes": "decodes: one token",
    "left out": "preempted in this step",
}  # fmt: skip
_OWNERS = ("#bcd3f0", "#d9c8ee", "#bfe0cc", "#f3d9a8", "#c9ced6", "#f0c3cf", "#b9dfe3", "#dfe0a6")


@dataclass(frozen=True)
class Cell:
    """What a request does in a step: `count` tokens are computed."""

    step: int
    does: Does
    count: int = 0


@dataclass
class Lanes:
    """All of it. `lanes` are (name, cells) in order of submission; `held[step]` says which blocks each lane has then;
    `ends` are marked with a cross where a request was cancelled. `wrong` is (lane or -1, step)."""

    lanes: list[tuple[str, list[Cell]]]
    steps: int
    budget: int
    blocks: int
    held: list[dict[int, tuple[int, ...]]]
    times: list[float] = field(default_factory=list)  # milliseconds at which each step begins
    cancelled: dict[int, int] = field(default_factory=dict)  # lane: step
    wrong: tuple[int, int] | None = None
    title: str = ""
    subtitle: str = ""
    outcome: Any = None  # the run that it is of

    def _repr_svg_(self) -> str:
        return svg(self)


def svg(lanes: Lanes) -> str:
    """The picture, as SVG text."""
    heading = Heading.of(lanes.title, lanes.subtitle, WIDE)
    left = max(84.0, *(30 + width(name, 12) for name, _ in lanes.lanes)) if lanes.lanes else 84.0
    step = min(34.0, (WIDE - left - 20) / max(lanes.steps, 1))

    def x(number: float) -> float:
        """Where a step begins; they count from 1."""
        return round(left + step * (number - 1), 1)

    top = 44.0 + heading.height
    body = heading.draw()
    batch = top + ROW * len(lanes.lanes) + 30
    cache = batch + BATCH + 34
    used = sorted({block for held in lanes.held for table in held.values() for block in table})
    rows = max(1, len(used))
    tall = max(3.0, min(14.0, MOST_CACHE / rows))
    shown = min(rows, int(MOST_CACHE / tall)) if rows * tall > MOST_CACHE else rows
    bottom = cache + tall * shown
    every = next(each for each in (1, 2, 5, 10, 20, 50, 100, 1000) if each * step >= 26)
    for number in range(1, lanes.steps + 1):
        if number == 1 or number % every == 0:
            body.append(f'<path d="M{x(number)} {top}V{bottom}" stroke="{GRID}"/>')
            body.append(text(x(number) + step / 2, top - 6, f"{number}", 10, SOFT, "middle"))
    body.append(text(16, top - 6, "step", 10, SOFT))
    if lanes.wrong:
        box = f'x="{x(lanes.wrong[1])}" y="{top - 2}" width="{step:.1f}" height="{bottom - top + 4:.1f}"'
        body.append(f'<rect {box} fill="{BAD}" opacity="0.13"/>')
    for row, (name, cells) in enumerate(lanes.lanes):
        bad = bool(lanes.wrong) and lanes.wrong is not None and lanes.wrong[0] == row
        y = top + ROW * row
        body.append(text(16, y + 13, name, 12, BAD if bad else INK, more=' font-weight="600"'))
        body += _lane(cells, x, step, y)
        if row in lanes.cancelled:
            body.append(style.cross(x(lanes.cancelled[row]), y + ROW / 2, 5))
    body += _batch(lanes, x, step, batch)
    body += _cache(lanes, x, step, cache, tall, used[:shown])
    seen = [does for does in _FILLS if any(cell.does == does for _, cells in lanes.lanes for cell in cells)]
    entries = [(style.bar(_FILLS[does], QUIET), _WORDS[does]) for does in seen]
    if lanes.cancelled:
        entries.append((style.cross(11, -5, 5), "cancelled"))
    legend = style.legend_rows(entries, WIDE - 32)
    body += style.legend(legend, 16, bottom + 28)
    return style.document(WIDE, bottom + 30 + LEGEND_ROW * len(legend), lanes.title, body)


def _lane(cells: Sequence[Cell], x: Callable[[float], float], step: float, y: float) -> Iterator[str]:
    for cells_ in _runs(cells):
        first, wide = cells_[0], step * len(cells_)
        tall, gap = (4.0, 7.0) if first.does == "waits" else (14.0, 2.0)
        yield (
            f'<rect x="{x(first.step)}" y="{y + gap}" width="{max(wide - 1, 1):.1f}" height="{tall}" '
            f'fill="{_FILLS[first.does]}" stroke="{QUIET}" stroke-width="0.5"/>'
        )
        label = str(first.count) if first.does in ("prompt", "again") else ""
        if label and fit(label, 9.5, step) == label:
            yield text(
                x(first.step) + step / 2 - 0.5,
                y + 12.5,
                label,
                9.5,
                "#ffffff" if first.does == "prompt" else INK,
                "middle",
            )


def _runs(cells: Sequence[Cell]) -> Iterator[list[Cell]]:
    """Steps that wait are one bar, all others a bar each."""
    run: list[Cell] = []
    for cell in cells:
        if run and (cell.does != "waits" or run[-1].does != "waits" or cell.step != run[-1].step + 1):
            yield run
            run = []
        run.append(cell)
    if run:
        yield run


def _batch(lanes: Lanes, x: Callable[[float], float], step: float, top: float) -> Iterator[str]:
    """Tokens of each step: those that decode below, prompts above, and the line of what is allowed."""
    sums: dict[int, list[int]] = {}
    for _, cells in lanes.lanes:
        for cell in cells:
            if cell.count:
                sums.setdefault(cell.step, [0, 0, 0])[("decodes", "prompt", "again").index(cell.does)] += cell.count
    most = max([lanes.budget, *(sum(each) for each in sums.values())])
    scale = BATCH / most
    yield text(16, top + 12, "tokens", 12, more=' font-weight="600"')
    yield text(16, top + 27, f"of {lanes.budget} a step", 10, SOFT)
    for number, counts in sums.items():
        y = top + BATCH
        for count, does in zip(counts, ("decodes", "prompt", "again"), strict=True):
            if count:
                y -= count * scale
                fill = _FILLS[does]  # type: ignore[index]
                yield (
                    f'<rect x="{x(number)}" y="{y:.1f}" width="{max(step - 1, 1):.1f}" height="{count * scale:.1f}" '
                    f'fill="{fill}" stroke="{QUIET}" stroke-width="0.5"/>'
                )
    line = top + BATCH - lanes.budget * scale
    yield f'<path d="M{x(1)} {line:.1f}H{x(lanes.steps + 1)}" stroke="{MESSAGE}" stroke-dasharray="4 3"/>'
    yield f'<path d="M{x(1)} {top + BATCH}H{x(lanes.steps + 1)}" stroke="{QUIET}"/>'


def _cache(
    lanes: Lanes, x: Callable[[float], float], step: float, top: float, tall: float, shown: Sequence[int]
) -> Iterator[str]:
    """Blocks that anybody has, from top to bottom; what several requests have is hatched."""
    yield text(16, top + 12, "blocks", 12, more=' font-weight="600"')
    yield text(16, top + 27, f"{len(shown)} of {lanes.blocks}", 10, SOFT)
    yield (
        f'<rect x="{x(1)}" y="{top}" width="{step * lanes.steps:.1f}" height="{tall * len(shown):.1f}" fill="none" '
        f'stroke="{QUIET}"/>'
    )
    for place, block in enumerate(shown):
        y, run = top + tall * place, tuple[int, ...]()
        since = 1
        for number in range(1, lanes.steps + 2):
            held = lanes.held[number - 1] if number <= min(lanes.steps, len(lanes.held)) else {}
            owners = tuple(lane for lane, table in held.items() if block in table)
            if owners != run:
                yield from _block(lanes, run, x(since), y, x(number) - x(since), tall)
                run, since = owners, number


def _block(lanes: Lanes, owners: tuple[int, ...], x: float, y: float, wide: float, tall: float) -> Iterator[str]:
    if not owners:
        return
    fill = _OWNERS[owners[0] % len(_OWNERS)]
    names = [lanes.lanes[owner][0] for owner in owners if owner < len(lanes.lanes)]
    box = f'x="{x:.1f}" y="{y:.1f}" width="{max(wide, 1):.1f}" height="{tall:.1f}"'
    yield f'<rect {box} fill="{fill}" stroke="#ffffff" stroke-width="0.6"/>'
    if len(owners) > 1:
        yield f'<rect {box} fill="{style.hatch("g")}" opacity="0.45"/>'
    label = fit(", ".join(names), 9, wide - 4) if tall >= 10 and wide > 14 else ""
    if label:
        yield text(x + 2, y + tall - 3, label, 9, INK)
