"""What became of a class in one exercise, as a page of its own: points, and what the class gets wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median
from urllib.parse import quote

from grader.classroom.pages.classwide import bins, by_kind
from grader.classroom.pages.frame import render
from grader.classroom.pages.histogram import histogram
from grader.classroom.pages.words import clean, number
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
    heading = titles.get("", result.exercise)
    lost = Counter(check for row in graded for check in {check for check, *_ in row.kinds})
    order = [check for check in titles if check and check in lost] + [check for check in lost if check not in titles]
    points = [row.points for row in graded]
    most = max((row.max_points for row in graded), default=0.0)
    whole = all(float(value).is_integer() for value in (*points, most))
    return render(
        "overview.html",
        title=f"{clean(result.assignment, 120)}: {heading}",
        heading=heading,
        result=result,
        took=f"{result.seconds:.0f} s" if result.seconds < 600 else f"{result.seconds / 60:.0f} min",
        rows=rows,
        graded=graded,
        problems=[row for row in rows if row.problem],
        tiles=_tiles(graded, points, most, len(rows)) if graded else [],
        histogram=histogram(bins(points, most), fmean(points), whole) if graded else "",
        kinds=by_kind((row.student, *loss) for row in graded for loss in row.kinds),
        lost=[(check, lost[check]) for check in order],
        titles=titles,
        links={row.student: _link(result, row) for row in graded},
        most=_MOST_MISTAKES,
        named=_NAMED,
    )


def _titles(exercise: str) -> dict[str, str]:
    """The titles of an exercise's checks, its own under ""; empty where it is not known."""
    try:
        found = find(exercise)
    except BadRequest:
        return {}
    return {"": found.title, **{check.name: check.title for check in found.checks}}


def _link(result: ClassResult, row: Row) -> str:
    """Where the student's feedback page is."""
    places = ("feedback", row.student, result.assignment, f"{result.exercise}.html")
    return "../" + "/".join(quote(place.encode("utf-8", "surrogatepass"), safe="") for place in places)


def _tiles(graded: Sequence[Row], points: Sequence[float], most: float, count: int) -> list[tuple[str, str]]:
    """The numbers of the class, each with its words."""
    full = sum(row.max_points > 0 and row.points >= row.max_points for row in graded)
    late = sum(row.late for row in graded)
    told = [
        (f"{len(graded)}", f"of {count} graded"),
        (number(round(fmean(points), 1)), f"mean, of {number(most)}"),
        (number(median(points)), "median"),
        (f"{full}", "with all points"),
    ]
    return told + ([(f"{late}", "late")] if late else [])
