"""The picture of a run: a space-time diagram (Lamport 1978) for up to 16 ranks, a heat map for more.

Ranks across, time down, an arrow for every message, a band for every collective, bars where a rank computes or waits.
Time is that of `times`: recorded virtual time, or rounds of logical time, so that the same run gives the same picture
everywhere. The SVG needs no script and no font of its own, and prints.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from grader.trace import bands, cards, faults, fold, heatmap, messages, moments, paper, style
from grader.trace import scene as scenes
from grader.trace.cards import Card
from grader.trace.events import SEND, Trace
from grader.trace.paper import tear
from grader.trace.scene import NEVER, Scene, Wait
from grader.trace.sheet import BAR, RIGHT, Sheet
from grader.trace.style import BAD, COMPUTE, GRID, INK, LEGEND_ROW, MOVING, MOVING_EDGE, ODD, QUIET, SOFT, WAIT, text

MOST_RANKS = 16
PASSES = {"F": "forward pass (F0: of micro-batch 0)", "B": "backward pass", "W": "gradients of the weights"}
MOST_PARTS = 1500  # arrows, waits and bands, beyond which a diagram is a blot


def svg(
    trace: Trace,
    title: str,
    subtitle: str = "",
    cycle: Sequence[int] = (),
    marks: Mapping[int, str] | None = None,
    unit: str = "",
) -> str:
    """The picture of one call, as SVG text.

    `cycle` names the ranks of a deadlock (drawn in red, with what each waits for), `marks` a word for ranks that broke
    ("raised ValueError"). `unit` is that of the time axis ("round", "ns", "us", "ms", "s"; chosen where empty).
    """
    return draw(scenes.of(trace, cycle, marks, unit), title, subtitle)[0]


def draw(scene: Scene, title: str, subtitle: str = "", interactive: bool = False) -> tuple[str, list[Card]]:
    """The picture as SVG text and, if `interactive`, what hovers over its parts (by their attribute `data-i`)."""
    whole, scene = scene, fold.folded(scene)
    if scene.ranks > MOST_RANKS or len(scene.arrows) + len(scene.waits) + len(scene.bands) > MOST_PARTS:
        return heatmap.draw(whole, title, subtitle, interactive)
    right = messages.NOTE if messages.noted(scene) else RIGHT
    sheet = Sheet(scene, title, subtitle, interactive, _zone(scene), right)
    body = [
        *_axis(sheet),
        *bands.draw(sheet),
        *_lifelines(sheet),
        *_computing(sheet),
        *_waiting(sheet),
        *faults.draw(sheet),
        *bands.joins(sheet),
        *_breaks(sheet),
        *messages.draw(sheet),
        *_endings(sheet),
    ]
    bands.label(sheet)
    _names(sheet)
    words = messages.label(sheet)
    rows = style.legend_rows(_legend(sheet, words), sheet.width - 32)
    below = sheet.floor + (48 if scene.marks else 38 if scene.stuck else 12)
    height = below + 18 + LEGEND_ROW * len(rows)
    body += sheet.texts
    body += style.legend(rows, 16, below + 18)
    shown = style.document(
        sheet.width, height, title, [*sheet.heading.draw(), *body], ' class="picture"' if interactive else ""
    )
    return moments.added(shown, sheet, whole), sheet.cards or []


def _zone(scene: Scene) -> float:
    """How far below the last event the bars of what lasts for ever reach, in pixels."""
    if scene.stuck:
        least = 44.0 if any(band.mismatched or band.missing for band in scene.bands) else 30.0
        return max(30.0 + messages.LANE * (messages.lanes(scene) - 1), least)
    return 26.0 if any(scene.finish[rank] == NEVER for rank in scene.marks) else 12.0


def _axis(sheet: Sheet) -> Iterator[str]:
    scene = sheet.scene
    right = sheet.width - 14
    if scene.stuck:
        yield (
            f'<rect x="{sheet.left - 8:.1f}" y="{sheet.bottom:.1f}" width="{right - sheet.left + 8:.1f}" '
            f'height="{sheet.floor - sheet.bottom:.1f}" fill="#f4f5f7"/>'
        )
        y = (sheet.bottom + sheet.floor) / 2 + 8
        yield text(sheet.left - 14, y, "forever", 11, BAD if scene.cycle else ODD, "end")
    yield f'<g stroke="{GRID}">'
    tears = sheet.axis.tears
    marks = [(sheet.y(0.0), "0")] if tears and tears[0][0] == 0.0 else []
    for (since, until), pixels in sheet.axis.pieces():
        ticks = scene.unit.ticks(since, until, int(pixels / 26))
        marks += [(sheet.y(time), words) for time, words in ticks if time <= scene.makespan]
    last = -99.0
    told = []
    for y, words in marks:
        if y - last > 13:
            yield f'<path d="M{sheet.left - 8:.1f} {y:.1f}H{right:.1f}"/>'
            told.append((y, words))
            last = y
    yield "</g>"
    for y, words in told:
        yield text(sheet.left - 14, y + 4, words, 11, SOFT, "end")
    name = "round" if scene.unit.rounds else f"time, {scene.unit.name}"
    yield text(sheet.left - 14, sheet.top - 16, name, 11, SOFT, "end")


def _lifelines(sheet: Sheet) -> Iterator[str]:
    scene = sheet.scene
    killed = {stretch.span.rank for stretch in scene.faults("killed")}
    for rank in range(scene.ranks):
        x, end = sheet.x(rank), scene.finish[rank]
        bottom, top = sheet.y(end), sheet.top
        ring = rank in scene.cycle
        heading = text(x, top - 16, f"rank {rank}", 12, BAD if ring else "", "middle", ' font-weight="600"')
        line = f'<path d="M{x:.1f} {top:.1f}V{bottom:.1f}" stroke="{QUIET}" stroke-width="1.5"/>'
        yield sheet.part(heading + line + f'<circle cx="{x:.1f}" cy="{top:.1f}" r="3" fill="{QUIET}"/>',
                         cards.rank(scene, rank))  # fmt: skip
        for side in (-BAR, BAR):
            sheet.room.cross((x + side, top, x + side, bottom))
        if end != NEVER and rank not in scene.marks and rank not in killed:
            yield f'<path d="M{x - 7:.1f} {bottom:.1f}h14" stroke="{INK}" stroke-width="2.2"/>'


def _computing(sheet: Sheet) -> Iterator[str]:
    for stretch in sheet.scene.faults("compute"):
        fill = style.PASSES.get(stretch.span.of_pass, COMPUTE)
        edge = style.PAPER if stretch.span.name else COMPUTE
        yield sheet.part(
            _bar(sheet, stretch.span.rank, stretch.since, stretch.until, fill, edge),
            cards.stretch(sheet.scene, stretch),
        )


def _names(sheet: Sheet) -> None:
    """What was computed, beside its bar."""
    for stretch in (each for each in sheet.scene.faults("compute") if each.span.name):
        x, y = sheet.x(stretch.span.rank), (sheet.y(stretch.since) + sheet.y(stretch.until)) / 2 + 3.5
        sheet.write(stretch.span.name, [(x + BAR + 3, y, "start"), (x - BAR - 3, y, "end")], 10, INK, over_lines=True)


def _waiting(sheet: Sheet) -> Iterator[str]:
    """Hatched while a rank waits and nothing moves for it, light while its own data are on the way."""
    scene = sheet.scene
    for wait in scene.waits:
        rank, card = wait.op.rank, cards.wait(scene, wait)
        if wait.until == NEVER and rank in scene.cycle:
            yield sheet.part(_bar(sheet, rank, wait.since, NEVER, style.hatch("r"), BAD), card)
            continue
        shapes = []
        if wait.moving > wait.since:
            shapes.append(_bar(sheet, rank, wait.since, wait.moving, style.hatch("w"), WAIT))
        if wait.until > wait.moving:
            shapes.append(_bar(sheet, rank, wait.moving, wait.until, MOVING, MOVING_EDGE))
        if shapes:
            yield sheet.part(shapes, card)


def _bar(sheet: Sheet, rank: int, since: float, until: float, fill: str, stroke: str) -> str:
    top, bottom = sheet.y(since), sheet.y(until)
    return (
        f'<rect x="{sheet.x(rank) - BAR:.1f}" y="{top:.1f}" width="{2 * BAR:g}" height="{max(bottom - top, 1):.1f}" '
        f'fill="{fill}" stroke="{stroke}" stroke-width="0.8"/>'
    )


def _breaks(sheet: Sheet) -> Iterator[str]:
    """Where the axis is shortened, and how much time that leaves out."""
    for since, until in sheet.axis.tears:
        middle = (sheet.y(since) + sheet.y(until)) / 2
        yield tear(middle, sheet.left - 8, sheet.width - 14, upright=False)
        words = sheet.scene.unit.lasted(until - since)
        yield text(sheet.left - 14, middle + 4, words, 11, SOFT, "end", ' font-style="italic"')
        for each in (each for each in sheet.scene.folds if each.since == since):
            halo = paper.halo(style.PAPER)
            yield text(
                (sheet.x(0) + sheet.x(sheet.scene.ranks - 1)) / 2, middle + 4, each.words, 11, INK, "middle", halo
            )


def _endings(sheet: Sheet) -> Iterator[str]:
    """What became of ranks that did not return: a cross, or what they wait in."""
    scene = sheet.scene
    killed = {stretch.span.rank for stretch in scene.faults("killed")}
    for rank, word in scene.marks.items():
        if rank in killed:
            continue
        x, y = sheet.x(rank), sheet.y(scene.finish[rank])
        yield sheet.part(style.cross(x, y), cards.rank(scene, rank))
        sheet.rows(x, sheet.floor + 19 if y > sheet.bottom - 30 else y + 19, word, BAD, 3)
    told: dict[int, Wait] = {wait.op.rank: wait for wait in scene.stuck}
    for rank, wait in told.items():
        op = wait.op
        if rank in scene.marks:
            continue
        what = "send" if op.kind == SEND else "recv" if op.receives else op.name
        line, colour = op.wait_line or op.line, BAD if rank in scene.cycle else ODD
        for row, words in enumerate((f"in {what}", f"line {line}" if line else "")):
            if words:
                sheet.label(sheet.narrowed(words, 11), [(sheet.x(rank), sheet.floor + 15 + 13 * row)], 11, colour,
                            over_lines=True)  # fmt: skip


def _legend(sheet: Sheet, words: str) -> list[tuple[str, str]]:
    """Sample and word of each kind of thing that is in this picture."""
    scene = sheet.scene
    entries = []
    if scene.arrows:
        entries.append((style.arrow(style.MESSAGE), words))
    if any(wait.moving > wait.since and wait.op.rank not in scene.cycle for wait in scene.waits):
        entries.append((style.bar(style.hatch("w"), WAIT), "waits"))
    if any(wait.until > wait.moving for wait in scene.waits if wait.until != NEVER):
        entries.append((style.bar(MOVING, MOVING_EDGE), "its data move"))
    seen = [each for each in scene.faults("compute") if sheet.y(each.until) - sheet.y(each.since) > 1]
    if any(not each.span.of_pass for each in seen):
        entries.append((style.bar(COMPUTE, COMPUTE), "computes"))
    for letter, words in PASSES.items():
        if any(each.span.of_pass == letter for each in seen):
            entries.append((style.bar(style.PASSES[letter], style.PAPER), words))
    entries += bands.legend(scene)
    if any(wait.op.peer >= 0 and not wait.op.collective for wait in scene.stuck):
        entries.append((style.arrow(BAD if scene.cycle else ODD, "4 3"), "waits forever for"))
    entries += faults.legend(scene)
    entries += messages.legend(scene)
    if len(sheet.axis.tears) > len(scene.folds):
        entries.append((f'<path d="M0 -7{"q2.75 -4 5.5 0t5.5 0" * 2}M0 -2{"q2.75 -4 5.5 0t5.5 0" * 2}" fill="none" '
                        f'stroke="{QUIET}"/>', "time left out"))  # fmt: skip
    broken = {stretch.span.rank for stretch in scene.faults("killed")} | set(scene.marks)
    if any(end != NEVER and rank not in broken for rank, end in enumerate(scene.finish)):
        entries.append((f'<path d="M2 -4h18" stroke="{INK}" stroke-width="2.2"/>', "returns"))
    return entries
