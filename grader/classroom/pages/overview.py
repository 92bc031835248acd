"""What became of a class in one exercise, as a page of its own: points, and what the class gets wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from urllib.parse import quote

from grader.classroom.pages import kinds
from grader.classroom.pages.classwide import OfKind, Shared, bins, by_kind
from grader.classroom.pages.frame import bar, document
from grader.classroom.pages.histogram import histogram
from grader.classroom.pages.words import clean, name, number, safe, sentence
from grader.registry import find
from grader.submission import BadRequest

_MOST_MISTAKES = 4  # of one kind that are told
_NAMED = 8  # students that are named before the rest is folded


@dataclass(frozen=True)
class Row:
    """One student's result.

    `kinds` is (check, kind, message) of every check that lost points; `problem` a sentence where the submission could
    not be graded; `seconds` what its grading took.
    """

    student: str
    points: float
    max_points: float
    kinds: tuple[tuple[str, str, str], ...] = ()
    problem: str = ""
    seconds: float = 0.0
    late: bool = False


@dataclass(frozen=True)
class ClassResult:
    """All results for one exercise of an assignment; `seconds` is what the whole grading took."""

    assignment: str
    exercise: str
    rows: tuple[Row, ...]
    seconds: float
    engine: str


def page(result: ClassResult) -> str:
    """The class as a self-contained page that needs no script; links lead to `../feedback/STUDENT/ASSIGNMENT/`."""
    rows = sorted(result.rows, key=lambda row: (row.student.casefold(), row.student))
    graded = [row for row in rows if not row.problem]
    titles = _titles(result.exercise)
    parts = [_head(result, titles.get("", result.exercise), len(rows))]
    parts += _problems([row for row in rows if row.problem])
    parts += _points(graded, len(rows))
    parts += _mistakes(result, graded)
    parts += _checks(graded, titles)
    parts += _students(result, rows)
    return document(f"{clean(result.assignment, 120)}: {titles.get('', result.exercise)}", "\n".join(parts))


def _titles(exercise: str) -> dict[str, str]:
    """The titles of an exercise's checks, its own under ""; empty where it is not known."""
    try:
        found = find(exercise)
    except BadRequest:
        return {}
    return {"": found.title, **{check.name: check.title for check in found.checks}}


def _link(result: ClassResult, row: Row) -> str:
    """The student, leading to the feedback page where there is one."""
    if row.problem:
        return name(row.student)
    places = (row.student, result.assignment, f"{result.exercise}.html")
    path = "/".join(quote(place.encode("utf-8", "surrogatepass"), safe="") for place in ("feedback", *places))
    return f'<a href="../{safe(path, 4000)}">{name(row.student)}</a>'


def _head(result: ClassResult, title: str, count: int) -> str:
    took = f"{result.seconds:.0f} s" if result.seconds < 600 else f"{result.seconds / 60:.0f} min"
    facts = f"<code>{safe(result.exercise)}</code> · {count} submission{'' if count == 1 else 's'} · graded in {took}"
    facts += f" · {safe(result.engine)}" if result.engine else ""
    return (
        f'<header><div><p class="facts over">{name(result.assignment)}</p><h1>{safe(title)}</h1>'
        f'<p class="facts">{facts}</p></div></header>'
    )


def _problems(rows: Sequence[Row]) -> Iterator[str]:
    """The submissions that could not be graded: they need a person."""
    if not rows:
        return
    items = "".join(f"<li><b>{name(row.student)}</b> {sentence(row.problem)}</li>" for row in rows)
    heading = "One submission could" if len(rows) == 1 else f"{len(rows)} submissions could"
    yield f'<section class="problems"><h2>{heading} not be graded</h2><ul>{items}</ul></section>'


def _points(graded: Sequence[Row], count: int) -> Iterator[str]:
    """The numbers of the class, and its histogram."""
    if not graded:
        yield '<section><p class="remark">No submission could be graded.</p></section>'
        return
    points = [row.points for row in graded]
    most = max(row.max_points for row in graded)
    full = sum(row.max_points > 0 and row.points >= row.max_points for row in graded)
    late = sum(row.late for row in graded)
    told = [
        (f"{len(graded)}", f"of {count} graded"),
        (number(round(fmean(points), 1)), f"mean, of {number(most)}"),
        (number(median(points)), "median"),
        (f"{full}", "with all points"),
    ]
    told += [(f"{late}", "late")] if late else []
    tiles = "".join(f"<li><b>{value}</b> <span>{words}</span></li>" for value, words in told)
    whole = all(float(value).is_integer() for value in (*points, most))
    yield f'<section aria-label="Points"><ul class="tiles">{tiles}</ul>'
    yield f"{histogram(bins(points, most), fmean(points), whole)}</section>"


def _mistakes(result: ClassResult, graded: Sequence[Row]) -> Iterator[str]:
    losses = [(row.student, *loss) for row in graded for loss in row.kinds]
    found = by_kind(losses)
    yield '<section aria-labelledby="wrong"><h2 id="wrong">What the class gets wrong</h2>'
    if not found:
        yield "<p>Nothing: nobody lost a point.</p></section>"
        return
    links = {row.student: _link(result, row) for row in graded}
    yield '<div class="kinds">'
    for each in found:
        yield from _kind(each, len(graded), links)
    yield "</div></section>"


def _kind(each: OfKind, graded: int, links: dict[str, str]) -> Iterator[str]:
    count = len(each.students)
    yield (
        f'<article><h3>{safe(kinds.title(each.kind))} <span class="cost">{count} student{"" if count == 1 else "s"}'
        f" of {graded}</span></h3>{bar(count / graded, 'bad')}"
        f'<p class="meaning"><code>{safe(each.kind)}</code> {safe(kinds.meaning(each.kind))}</p><ul class="mistakes">'
    )
    for shared in each.mistakes[:_MOST_MISTAKES]:
        yield _mistake(shared, links)
    left = each.mistakes[_MOST_MISTAKES:]
    if left:
        items = "".join(_mistake(shared, links) for shared in left[:100])
        words = "another sentence" if len(left) == 1 else f"{len(left)} other sentences"
        yield f"<li><details><summary>{words}</summary><ul>{items}</ul></details></li>"
    yield "</ul></article>"


def _mistake(shared: Shared, links: dict[str, str]) -> str:
    checks = ", ".join(f"<code>{safe(check)}</code> ({count})" for check, count in shared.checks)
    return (
        f'<li><p class="says">{sentence(shared.message)}</p><div class="by">{checks} · {_who(shared, links)}</div></li>'
    )


def _who(shared: Shared, links: dict[str, str]) -> str:
    names = [links.get(student, name(student)) for student in shared.students]
    if len(names) <= _NAMED:
        return ", ".join(names)
    return f"<details><summary>{len(names)} students</summary>{', '.join(names)}</details>"


def _checks(graded: Sequence[Row], titles: dict[str, str]) -> Iterator[str]:
    """How many lost points in each check."""
    lost = Counter(check for row in graded for check in {check for check, *_ in row.kinds})
    if not lost:
        return
    order = [check for check in titles if check and check in lost] + [check for check in lost if check not in titles]
    yield '<section aria-labelledby="checks"><h2 id="checks">Where points are lost</h2><ol class="checks">'
    for check in order:
        title = safe(titles.get(check, check))
        yield (
            f'<li class="bad"><span class="what"><code>{safe(check)}</code> {title}</span>'
            f'<span class="track">{bar(lost[check] / len(graded), "bad")}</span>'
            f'<span class="n">{lost[check]}<i>/{len(graded)}</i></span></li>'
        )
    yield "</ol></section>"


def _students(result: ClassResult, rows: Sequence[Row]) -> Iterator[str]:
    yield '<section aria-labelledby="students"><h2 id="students">Students</h2>'
    yield (
        '<div class="scroll" tabindex="0" role="group" aria-label="Students"><table class="students"><thead><tr>'
        '<th scope="col">student</th><th scope="col" class="n">points</th><td></td>'
        '<th scope="col">lost first by</th><th scope="col" class="n">seconds</th></tr></thead><tbody>'
    )
    for row in rows:
        yield _student(result, row)
    yield "</tbody></table></div></section>"


def _student(result: ClassResult, row: Row) -> str:
    late = ' <span class="tag">late</span>' if row.late else ""
    who = f'<th scope="row">{_link(result, row)}{late}</th>'
    if row.problem:
        told = f'<td class="n">–</td><td></td><td class="told problem">{sentence(row.problem)}</td>'
    else:
        share = row.points / row.max_points if row.max_points else 0.0
        tone = "good" if share >= 1 else "mixed" if share else "bad"
        told = (
            f'<td class="n">{number(row.points)}<i>/{number(row.max_points)}</i></td>'
            f'<td class="track">{bar(share, tone)}</td><td class="told">{_first(row)}</td>'
        )
    seconds = f"{row.seconds:.1f}" if row.seconds else ""
    return f'<tr>{who}{told}<td class="n soft">{seconds}</td></tr>'


def _first(row: Row) -> str:
    if not row.kinds:
        return ""
    check, kind, _ = row.kinds[0]
    return f"{safe(kinds.title(kind))} <code>{safe(check)}</code>"
