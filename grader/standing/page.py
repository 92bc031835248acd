"""Where the learner stands, as a page of its own that needs no script."""

from __future__ import annotations

from grader.classroom.pages.frame import bar, document
from grader.classroom.pages.words import number, safe
from grader.standing.advice import READ, steps
from grader.standing.gather import Part, Practice, Standing


def page(standing: Standing) -> str:
    """The whole page."""
    return document(
        "Where you stand", "\n".join([_head(standing), _tiles(standing), _next(standing), _parts(standing)])
    )


def _head(standing: Standing) -> str:
    share = standing.points / standing.max_points if standing.max_points else 0
    when = f"{standing.now.astimezone():%d %B %Y, %H:%M}".lstrip("0")
    return (
        f'<header><div><h1>Where you stand</h1><p class="facts">{when}</p></div>'
        f'<p class="score"><b>{number(standing.points)}</b> of {number(standing.max_points)} points in the exercises'
        f"{bar(share, 'good' if share else '')}</p></header>"
    )


def _tiles(standing: Standing) -> str:
    parts = [part for part in standing.parts if part.cells]
    done = [each for part in standing.parts for each in part.exercises if each.done]
    every = [each for part in standing.parts for each in part.exercises]
    seen, total = sum(part.cards.seen for part in standing.parts), sum(part.cards.total for part in standing.parts)
    tiles = [
        (f"{sum(part.read >= READ for part in parts)} of {len(parts)}", "chapters read"),
        (f"{len(done)} of {len(every)}", "exercises solved"),
        (f"{seen} of {total}", "cards seen"),
        (str(standing.due), "card due" if standing.due == 1 else "cards due"),
    ]
    inner = "".join(f"<div><b>{safe(value, 40)}</b><span>{name}</span></div>" for value, name in tiles)
    return f'<div class="tiles">{inner}</div>'


def _next(standing: Standing) -> str:
    items = "".join(
        f"<article><h3>{safe(step.what[:1].upper() + step.what[1:], 200)}</h3>"
        f'<p class="meaning">{safe(step.why[:1].upper() + step.why[1:], 300)}.</p>'
        f"<p><code>{safe(step.command, 200)}</code></p>"
        "</article>"
        for step in steps(standing)
    )
    return f'<section><h2>What to do next, and why</h2><div class="kinds">{items}</div></section>'


def _parts(standing: Standing) -> str:
    rows = "".join(_part(part) for part in standing.parts)
    heads = "".join(
        f'<th scope="col"{" class=n" if right else ""}>{name}</th>'
        for name, right in (("Chapter", False), ("Read", True), ("Exercises", False), ("Cards seen", True),
                            ("Due", True), ("Interviews", True))
    )  # fmt: skip
    return (
        '<section><h2>Chapter by chapter</h2><div class="scroll"><table class="students">'
        f"<thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div></section>"
    )


def _part(part: Part) -> str:
    cards = f"{part.cards.seen}<i> of {part.cards.total}</i>" if part.cards.total else ""
    asked = f"{number(part.asked.met)}<i> of {number(part.asked.points)}</i>" if part.asked.points else ""
    read = f"{part.read:.0%}" if part.cells else ""
    return (
        f'<tr><th scope="row">{safe(part.id, 4)} {safe(part.title, 120)}</th>'
        f'<td class="n">{read}{bar(part.read, "good" if part.read >= READ else "mixed") if part.cells else ""}</td>'
        f'<td class="told">{"".join(_exercise(each) for each in part.exercises)}</td>'
        f'<td class="n">{cards}</td><td class="n">{part.cards.due or ""}</td><td class="n">{asked}</td></tr>'
    )


def _exercise(each: Practice) -> str:
    reached = "not tried" if each.points is None else f"{number(each.points)} of {number(each.max_points)}"
    sign = '<span class="sign good">✓</span> ' if each.done else ""
    return f'<div>{sign}{safe(each.name, 60)} <span class="soft">{reached}</span></div>'
