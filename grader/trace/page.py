"""A page of its own for one run: the picture with details on hover and by keyboard, and a table of the ranks."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from importlib import resources

from grader import says
from grader.trace import diagram, moments, scene
from grader.trace.cards import Card
from grader.trace.events import Trace
from grader.trace.scene import NEVER, Scene
from grader.trace.times import number


def html(
    trace: Trace,
    title: str,
    subtitle: str = "",
    cycle: Sequence[int] = (),
    marks: Mapping[int, str] | None = None,
    source: str = "",
    unit: str = "",
) -> str:
    """A self-contained page for one call: it loads nothing, and every text in it is escaped.

    `source` is the learner's code, from which the lines are quoted; for the rest see `diagram.svg`.
    """
    found = scene.of(trace, cycle, marks, unit)
    picture, cards = diagram.draw(found, title, subtitle, interactive=True)
    files = resources.files("grader.trace")
    return "\n".join(
        (
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title>",
            f"<style>\n{files.joinpath('page.css').read_text('utf-8')}</style></head>",
            f"<body><main>\n<figure>{picture}</figure>",
            '<p class="hint">Point at anything to see its details. Or press <kbd>Tab</kbd> to enter the picture, and '
            "step through it in time order with <kbd>↑</kbd> <kbd>↓</kbd>.</p>",
            *_table(found),
            '</main>\n<div id="card" role="status" hidden></div>',
            f'<script type="application/json" id="cards">{_json(cards, source.splitlines())}</script>',
            f"<script>\n{files.joinpath('page.js').read_text('utf-8')}</script>",
            moments.script(),
            "</body></html>\n",
        )
    )


def _json(cards: Sequence[Card], lines: Sequence[str]) -> str:
    """What hovers over each part, as JSON that no text in it can end early."""
    told = [
        {
            "kind": card.kind,
            "head": card.head,
            "rows": card.rows,
            "since": card.since if card.since != NEVER else -1,
            "keys": card.keys,
            "lines": [
                (who, line, lines[line - 1].strip() if 0 < line <= len(lines) else "") for who, line in card.lines
            ],
        }
        for card in cards
    ]
    text = json.dumps(told, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _table(found: Scene) -> Iterator[str]:
    """Every rank: what became of it, what it sent, when it was done, how long it waited and computed."""
    size = found.unit.size
    waiting, moving, computing, joined = ([0.0] * found.ranks for _ in range(4))
    for wait in found.waits:
        waiting[wait.op.rank] += min(wait.moving, NEVER) - wait.since
        if wait.until != NEVER:
            moving[wait.op.rank] += wait.until - wait.moving
    for stretch in found.faults("compute"):
        computing[stretch.span.rank] += stretch.until - stretch.since
    for band in found.bands:
        for rank in band.joined:
            joined[rank] += 1
    name = "rounds" if found.unit.rounds else found.unit.name
    columns: dict[str, list[str]] = {"": _became(found)}
    columns["messages sent"] = [str(found.trace.messages_sent(rank)) for rank in range(found.ranks)]
    columns["bytes sent"] = [says.size(found.trace.bytes_sent(rank)) for rank in range(found.ranks)]
    if any(joined):
        columns["collectives"] = [number(count) for count in joined]
    columns[f"done after, {name}"] = ["never" if end == NEVER else number(end / size) for end in found.finish]
    if any(computing):
        columns[f"computing, {name}"] = [number(time / size) for time in computing]
    columns[f"its data move, {name}"] = [number(time / size) for time in moving]
    columns[f"waiting, {name}"] = ["forever" if time == NEVER else number(time / size) for time in waiting]
    shares = [
        time / end if end and NEVER not in (end, time) else None
        for time, end in zip(waiting, found.finish, strict=True)
    ]
    columns["waiting, share"] = ["-" if share is None else f"{share:.0%}" for share in shares]
    heads = "".join(f"<th>{escape(head)}</th>" for head in ("rank", *columns))
    yield f'<div class="table"><table><thead><tr>{heads}</tr></thead><tbody>'
    for rank in range(found.ranks):
        cells = "".join(f"<td>{escape(column[rank])}</td>" for column in columns.values())
        bad = ' class="bad"' if columns[""][rank] != "returned" else ""
        yield f"<tr{bad}><th>{rank}</th>{cells}</tr>"
    yield "</tbody></table></div>"


def _became(found: Scene) -> list[str]:
    """What became of every rank, in a few words."""
    words = ["returned" if end != NEVER else "did not return" for end in found.finish]
    for wait in found.stuck:
        rank = wait.op.rank
        words[rank] = f"{'deadlocked' if rank in found.cycle else 'waits forever'} in {wait.op.name}"
    for stretch in found.faults("killed"):
        words[stretch.span.rank] = "killed"
    for rank, word in found.marks.items():
        words[rank] = word
    return words
