"""The picture of a cluster of message-passing nodes: a space-time diagram (Lamport 1978), and the same in words.

Lanes from top to bottom, nodes and then clients; time to the right. In seconds, repeated messages are pale and long
quiet stretches are torn; in steps, as of a minimised schedule, all is evenly spaced and numbered, with words below.
The SVG needs no script and no font of its own, and prints. Red is what the story marks or blames, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator

from grader.says import counted
from grader.trace import moments, style
from grader.trace.board import arrows, faults, marks, phrases, scale, steps
from grader.trace.board import scene as scenes
from grader.trace.board.scene import Scene
from grader.trace.board.sheet import Sheet, gutter
from grader.trace.labels import width
from grader.trace.paper import part, tear
from grader.trace.story import Story
from grader.trace.style import GRID, LEGEND_ROW, QUIET, SOFT, text

_CLIENT_SHADE = "#f6f4fb"


def svg(
    story: Story, title: str = "", subtitle: str = "", since: float | None = None, until: float | None = None
) -> str:
    """The picture of a story, as SVG text of at most about 1200 pixels in width.

    `title` and `subtitle` are the story's own unless given. `since` and `until` cut out a stretch; without them a story
    of more than 1200 messages is drawn around what is marked in it, or at its end, and says so. In a story of steps,
    step k lies at time k, and what came before the first step at times below 1.
    """
    scene = scenes.of(story, since, until)
    heading = title or story.title or "What happened"
    below = [subtitle or story.subtitle, _left_out(scene)]
    board = Sheet(scene, heading, " ".join(part for part in below if part))
    rows = faults.rows(board)
    board.lay(max(rows, default=-1) + 1)
    found = arrows.of(board)
    numbers = steps.red(scene)
    body = [
        *board.heading.draw(),
        *_shades(board),
        *faults.draw(board, rows),
        *_axis(board, numbers),
        *gutter(board),
        *_lanes(board),
        *faults.absences(board),
        *_tears(board),
        *arrows.draw(board, found),
        *marks.operations(board),
        *marks.draw(board),
    ]
    marks.label_operations(board)
    marks.label(board)
    arrows.label(board, found)
    body += board.texts
    entries = [*arrows.legend(scene), *marks.legend(scene), *faults.legend(scene)]
    if board.scale.tears:
        entries.append((f'<path d="M8 -13q-4 3.5 0 7t0 7m5 -14q-4 3.5 0 7t0 7" fill="none" stroke="{QUIET}"/>',
                        "time left out, in seconds"))  # fmt: skip
    end = board.bottom + (24 if board.scale.tears else 10)
    if entries:
        legend = style.legend_rows(entries, board.width - 32)
        body += style.legend(legend, 16, end + 14)
        end += LEGEND_ROW * len(legend) + 8
    if scene.unit == "step":
        shown, end = steps.listing(steps.words(scene), numbers, board.width, end + 8)
        body += shown
    return _playable(style.document(board.width, end + 8, phrases.line(heading, 300), body), board)


def _playable(svg: str, board: Sheet) -> str:
    """With what its player tells: what each node and client did last."""
    scene = board.scene
    found = [(at, told) for at, told in steps.moments(scene) if scene.since <= at <= scene.until]
    if not 2 <= len(found) <= moments.MOST:
        return svg
    rows: dict[str, moments.Changes] = {phrases.line(lane, 40): [(0, "")] for lane in ("", *scene.lanes)}
    for number, (_, told) in enumerate(found):
        for who, what in told.items():
            rows.setdefault(who, [(0, "")]).append((number, what))
    times = [phrases.moment(at, scene.unit) for at, _ in found]
    lines = [f"M{board.x(at):.1f} {board.top - 3:.1f}V{board.bottom:.1f}" for at, _ in found]
    return moments.carrying(svg, times, lines, [(who or "network", did) for who, did in rows.items() if did[1:]])


def words(story: Story) -> list[str]:
    """The story in words: in steps one entry a step, as numbered in the picture; in seconds one a moment, with its
    time, without what only repeats. Where the story has words of its own for its steps, those are taken."""
    return steps.words(scenes.of(story, None, None))


def _left_out(scene: Scene) -> str:
    if not scene.left_out:
        return ""
    unit = scene.unit
    return (
        f"Shown: {phrases.moment(scene.since, unit)} to {phrases.moment(scene.until, unit)}; "
        f"{counted(scene.left_out, 'message')} before and after {'is' if scene.left_out == 1 else 'are'} left out."
    )


def _shades(board: Sheet) -> Iterator[str]:
    """The ground of clients' lanes."""
    for lane in board.scene.lanes:
        if lane in board.scene.clients:
            top, bottom = board.band(lane)
            yield (
                f'<rect x="{board.left:.1f}" y="{top:.1f}" width="{board.right - board.left:.1f}" '
                f'height="{bottom - top:.1f}" fill="{_CLIENT_SHADE}"/>'
            )


def _axis(board: Sheet, wrong: set[int]) -> Iterator[str]:
    if board.scene.unit == "step":
        yield from _numbers(board, wrong)
        return
    yield text(board.left - 17, board.axis, "time, s", 11, SOFT, "end")
    taken: list[float] = []
    for time, words_ in scale.ticks(board.scale):
        x = board.x(time)
        if any(abs(x - other) < 46 for other in taken) or len(words_) > 7:
            continue
        yield f'<path d="M{x:.1f} {board.axis + 5:.1f}V{board.bottom:.1f}" stroke="{GRID}"/>'
        yield text(max(x, board.left - 14 + width(words_, 11) / 2), board.axis, words_, 11, SOFT, "middle")
        taken.append(x)


def _numbers(board: Sheet, wrong: set[int]) -> Iterator[str]:
    """Steps in place of a time axis; where they are close, not each has its number."""
    first, last = board.scale.times[0], board.scale.times[-1]
    yield text(board.left - 12, board.axis, "step", 11, SOFT, "end")
    apart = board.scale.places[-1] / (last - first)
    each = 1 if apart >= 19 else 5 if apart >= 5 else 50
    for number in range(1, int(last) + 1):
        x = board.x(number)
        if number < first:
            continue
        colour = style.BAD_PALE if number in wrong else GRID
        yield f'<path d="M{x:.1f} {board.axis + 5:.1f}V{board.bottom:.1f}" stroke="{colour}"/>'
        if number % each == 0 or (number in wrong and each == 5):
            yield steps.badge(x, board.axis - 4, number, number in wrong)


def _lanes(board: Sheet) -> Iterator[str]:
    for lane in board.scene.lanes:
        y, client = board.y(lane), lane in board.scene.clients
        board.room.cross((board.left, y, board.right, y))
        yield (
            f'<path d="M{board.left:.1f} {y:.1f}H{board.right:.1f}" stroke="{GRID if client else QUIET}" '
            f'stroke-width="{1 if client else 1.5}"/>'
        )


def _tears(board: Sheet) -> Iterator[str]:
    """Where time is left out: a white tear from top to bottom, and below it how much it leaves out."""
    last = 0.0
    for since, until in board.scale.tears:
        middle = (board.x(since) + board.x(until)) / 2
        drawn = tear(middle, board.top - 3, board.bottom, upright=True)
        yield part(drawn, f"{phrases.moment(until - since, 's')} left out")
        words_ = f"{until - since:.2g}" if until - since < 10 else f"{until - since:.0f}"
        reach = width(words_, 10) / 2 + 3
        if middle - reach > last:
            yield text(middle, board.bottom + 12, words_, 10, SOFT, "middle", ' font-style="italic"')
            last = middle + reach
