"""The picture of a run on many ranks: what each rank did over time as a heat map, and who sent how much to whom."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from html import escape

from grader.trace import cards, matrix, style
from grader.trace.cards import Card, named
from grader.trace.labels import width, wrap
from grader.trace.paper import Heading
from grader.trace.scene import NEVER, Scene
from grader.trace.style import BAD, COMPUTE, INK, LEGEND_ROW, ODD, QUIET, SOFT, text

MOST_ROWS = 256
MOST_CHARACTERS = 150_000  # of the map itself: a busier one is drawn with fewer bins
LEFT, MAP, GAP, FOREVER = 74, 540, 70, 40
COMPUTING, MOVING, WAITING, IDLE, DONE, STUCK, RING, GONE = range(8)
_COLOURS = (COMPUTE, "#3f7fd6", "#f6b73c", "#ffffff", "#eceff2", "#b7791f", BAD, "#6b1111")
_WORDS = ("computes", "its data move", "waits", "", "has returned", "waits forever", "in the deadlock", "gone")
Row = tuple[int, ...]  # the ranks of one row


def draw(scene: Scene, title: str, subtitle: str, interactive: bool = False) -> tuple[str, list[Card]]:
    """The heat map as SVG text and, if `interactive`, what hovers over its rows (by their attribute `data-i`)."""
    rows = _rows(scene.ranks)
    tall = max(2, min(22 if len(rows) <= 16 else 14, 560 // len(rows)))
    wide = LEFT + MAP + GAP + matrix.WIDTH + 24
    heading = Heading.of(title, subtitle, wide)
    top = 62.0 + heading.height
    intervals = _intervals(scene)
    zone = FOREVER if any(interval[1] == NEVER for found in intervals for interval in found) else 0
    bins = MAP // 3
    while True:
        grid = [_majority(scene, row, intervals, bins) for row in rows]
        paths = list(_cells(grid, top, tall, (MAP - zone) / bins, zone))
        if bins < 40 or sum(map(len, paths)) <= MOST_CHARACTERS:
            break
        bins //= 2
    bottom = top + tall * len(rows)
    body = [*heading.draw(), *paths]
    body += _axes(scene, rows, top, tall, bottom, zone)
    found: list[Card] = []
    body += _rows_marked(scene, rows, top, tall, zone, found if interactive else None)
    side, lowest = matrix.draw(scene, LEFT + MAP + GAP, top)
    body += side
    under, y = _told(scene, bottom + 46)
    body += under
    y = max(y, lowest) + 26
    used = {state for line in grid for state in line[0]} | {line[1] for line in grid if line[1] is not None}
    entries = [
        (style.bar(_COLOURS[state], QUIET), _WORDS[state]) for state in range(8) if state in used and _WORDS[state]
    ]
    legend = style.legend_rows(entries, wide - 32)
    body += style.legend(legend, 16, y)
    more = ' class="picture"' if interactive else ""
    return style.document(wide, y + LEGEND_ROW * len(legend), title, body, more), found


def _rows(ranks: int) -> list[Row]:
    """Every rank its row, or, beyond MOST_ROWS, every so many neighbours one."""
    many = -(-ranks // MOST_ROWS)
    return [tuple(range(first, min(first + many, ranks))) for first in range(0, ranks, many)]


def _intervals(scene: Scene) -> list[list[tuple[float, float, int]]]:
    """By rank, what it was doing from when to when."""
    found: list[list[tuple[float, float, int]]] = [[] for _ in range(scene.ranks)]
    for stretch in scene.faults("compute"):
        found[stretch.span.rank].append((stretch.since, stretch.until, COMPUTING))
    ring = set(scene.cycle)
    for wait in scene.waits:
        own = found[wait.op.rank]
        if wait.until == NEVER:
            own.append((wait.since, NEVER, RING if wait.op.rank in ring else STUCK))
            continue
        if wait.moving > wait.since:
            own.append((wait.since, wait.moving, WAITING))
        if wait.until > wait.moving:
            own.append((wait.moving, wait.until, MOVING))
    gone = {stretch.span.rank for stretch in scene.faults("killed")} | set(scene.marks)
    for rank, end in enumerate(scene.finish):
        if end != NEVER:
            found[rank].append((end, scene.makespan, GONE if rank in gone else DONE))
    return found


def _majority(
    scene: Scene, row: Row, intervals: list[list[tuple[float, float, int]]], bins: int
) -> tuple[list[int], int | None]:
    """What most of each bin of a row was, and what lasts for ever in it (None: nothing)."""
    share: dict[int, list[float]] = defaultdict(lambda: [0.0] * bins)
    scale = bins / (scene.makespan or 1.0)
    ever: dict[int, int] = defaultdict(int)
    for rank in row:
        for since, until, state in intervals[rank]:
            if until == NEVER:
                ever[state] += 1
                until = scene.makespan
            low, high = since * scale, min(until * scale, float(bins))
            first, last = int(low), int(high)
            own = share[state]
            if first >= bins or high <= low:
                continue
            if first == last:
                own[first] += high - low
                continue
            own[first] += first + 1 - low
            for at in range(first + 1, last):
                own[at] += 1.0
            if last < bins:
                own[last] += high - last
    states = sorted(share)
    line = [IDLE] * bins
    for at in range(bins):
        most = len(row) * 0.02
        for state in states:
            if share[state][at] > most:
                most, line[at] = share[state][at], state
    if RING in ever:
        return line, RING
    if ever:
        return line, STUCK
    ended = [GONE if scene.marks.get(rank) else DONE for rank in row]
    return line, max(ended) if any(end == NEVER for end in scene.finish) else None


def _cells(grid: list[tuple[list[int], int | None]], top: float, tall: int, cell: float, zone: float) -> Iterator[str]:
    """The map: for each state one path, a run of bins one stroke of it."""
    paths: dict[int, list[str]] = defaultdict(list)
    for number, (line, ever) in enumerate(grid):
        y = top + tall * (number + 0.5)
        begun = 0
        for at in range(1, len(line) + 1):
            if at == len(line) or line[at] != line[begun]:
                if line[begun] != IDLE:
                    paths[line[begun]].append(
                        f"M{_short(LEFT + cell * begun)} {_short(y)}h{_short(cell * (at - begun))}"
                    )
                begun = at
        if ever is not None and zone:
            paths[ever].append(f"M{LEFT + MAP - zone} {_short(y)}h{_short(zone)}")
    thick = tall - 1 if tall > 3 else tall
    yield f'<g fill="none" stroke-width="{thick}">'
    for state in sorted(paths):
        yield f'<path stroke="{_COLOURS[state]}" d="{"".join(paths[state])}"/>'
    yield "</g>"


def _short(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _axes(scene: Scene, rows: list[Row], top: float, tall: int, bottom: float, zone: float) -> Iterator[str]:
    yield f'<path d="M{LEFT} {top:.1f}V{bottom:.1f}H{LEFT + MAP}" fill="none" stroke="{QUIET}"/>'
    name = "round" if scene.unit.rounds else f"time, {scene.unit.name}"
    yield text(LEFT, bottom + 32, name, 11, SOFT)
    scale = (MAP - zone) / (scene.makespan or 1.0)
    last = -99.0
    for time, words in scene.unit.ticks(0.0, scene.makespan, 10):
        x = LEFT + time * scale
        half = width(words, 11) / 2
        if x - half < last + 8:
            continue
        last = x + half
        yield f'<path d="M{x:.1f} {bottom:.1f}v4" stroke="{QUIET}"/>' + text(x, bottom + 17, words, 11, SOFT, "middle")
    if zone:
        x = LEFT + MAP - zone
        yield f'<path d="M{x:.1f} {top - 4:.1f}V{bottom:.1f}" stroke="{INK}" stroke-dasharray="3 3"/>'
        yield text(x + zone / 2, top - 8, "forever", 11, BAD if scene.cycle else ODD, "middle")
    yield text(LEFT - 16, top - 12, "rank", 11, SOFT, "end")
    step = next(step for step in (1, 2, 4, 8, 16, 32, 64) if step * tall >= 13 or step == 64)
    ring = set(scene.cycle)
    for number in range(0, len(rows), step):
        colour = BAD if ring & set(rows[number]) else SOFT
        yield text(LEFT - 16, top + tall * (number + 0.5) + 4, str(rows[number][0]), 11, colour, "end")


def _rows_marked(
    scene: Scene, rows: list[Row], top: float, tall: int, zone: float, found: list[Card] | None
) -> Iterator[str]:
    """A red mark beside every rank of the deadlock, crosses where ranks ended, a place to hover for every row."""
    ring = set(scene.cycle)
    scale = (MAP - zone) / (scene.makespan or 1.0)
    ended = {stretch.span.rank: stretch.since for stretch in scene.faults("killed")}
    for rank in scene.marks:
        ended.setdefault(rank, scene.finish[rank])
    slowed = {stretch.span.rank for stretch in scene.faults("slowed")}
    for number, row in enumerate(rows):
        y = top + tall * (number + 0.5)
        if ring & set(row):
            size = max(min(tall / 2, 4.5), 1.5)
            yield f'<path d="M{LEFT - 11} {y - size:.1f}v{2 * size:.1f}l8 {-size:.1f}z" fill="{BAD}"/>'
        elif slowed & set(row):
            yield f'<path d="M{LEFT - 5} {y - 3:.1f}q-4 1.5 0 3t0 3" fill="none" stroke="{ODD}" stroke-width="1.6"/>'
        for rank in row:
            if rank in ended:
                end = ended[rank]
                yield style.cross(LEFT + (MAP - zone / 2 if end == NEVER else end * scale), y, 4)
        if found is not None:
            card = _row_card(scene, row)
            found.append(card)
            yield (
                f'<rect class="i" data-i="{len(found) - 1}" tabindex="-1" role="img" x="{LEFT}" '
                f'y="{y - tall / 2:.1f}" width="{MAP}" height="{tall}" fill="transparent" '
                f'aria-label="{escape(card.title)}"/>'
            )


def _row_card(scene: Scene, row: Row) -> Card:
    if len(row) == 1:
        return cards.rank(scene, row[0])
    ends = [scene.finish[rank] for rank in row]
    told = "never" if all(end == NEVER for end in ends) else scene.unit.tell(max(end for end in ends if end != NEVER))
    return Card("rank", named(row), (("last returns", told),), 0.0)


def _told(scene: Scene, y: float) -> tuple[list[str], float]:
    """In words: the ranks of the deadlock, what else went wrong, the collectives."""
    lines: list[tuple[str, str]] = []
    if scene.cycle:
        ring = [str(rank) for rank in scene.cycle]
        shown = ring if len(ring) <= 24 else [*ring[:20], "…", *ring[-3:]]
        lines.append((f"Deadlock of {len(ring)} ranks: {' → '.join([*shown, ring[0]])}", BAD))
    by_word: dict[str, list[int]] = defaultdict(list)
    for rank, word in scene.marks.items():
        by_word[word].append(rank)
    lines += [(f"{named(ranks)}: {word}", BAD) for word, ranks in list(by_word.items())[:4]]
    killed = [stretch.span.rank for stretch in scene.faults("killed") if stretch.span.rank not in scene.marks]
    slowed = sorted({stretch.span.rank for stretch in scene.faults("slowed")})
    lost = sum(found.dropped is not None for found in scene.loose)
    late = sum(arrow.delayed is not None for arrow in scene.arrows)
    lines += [(f"{named(killed)}: killed", BAD)] if killed else []
    lines += [(f"{lost} message{'s' * (lost > 1)} lost on the way", BAD)] if lost else []
    lines += [(f"{named(slowed)}: slowed down", ODD)] if slowed else []
    lines += [(f"{late} message{'s' * (late > 1)} delayed", ODD)] if late else []
    wrong = [band for band in scene.bands if band.mismatched]
    if wrong:
        lines.append((f"not the same collective on all ranks: {' and '.join(wrong[0].names)}", BAD))
    body = []
    for words, colour in lines:
        for row in wrap(words, 11.5, LEFT + MAP - 16, 3):
            body.append(text(16, y + 10, row, 11.5, colour))
            y += 16
    return body, y
