"""One submission's feedback as a page of its own: no network, and no script but those it is given."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from grader.classroom import numbers
from grader.classroom.pages import figures, kinds, values
from grader.classroom.pages.figures import Figure
from grader.classroom.pages.findings import Finding, findings, lines_of, marks, to_fix
from grader.classroom.pages.frame import render
from grader.classroom.pages.listing import open_lines, stretches
from grader.classroom.pages.reading import reading
from grader.classroom.pages.words import number
from grader.verdict import CheckResult, Verdict

_MOST_OUTPUT = 4000
_SHOWN = {
    "pass": ("✓", "passed", "good"),
    "fail": ("✗", "points lost", "bad"),
    "error": ("!", "could not be graded", "odd"),
    "skipped": ("–", "not judged", "odd"),
}


def page(
    verdict: Verdict, source: str, *, learner: str = "", when: str = "", note: str = "", scripts: Sequence[str] = ()
) -> str:
    """The whole verdict as a self-contained page; `source` is the learner's text that was graded.

    `learner` and `when` are shown as they are, `note` is a sentence from whoever grades. Every text is escaped. With
    `scripts`, texts of ours, pictures carry what `moments.player` needs.
    """
    found = findings(verdict.checks)
    things = to_fix(found)
    pictures = [figures.figure(finding.first.diagram, bool(scripts)) for finding in found]
    lines = lines_of(source)
    title, functions = _exercise(verdict.exercise)
    marked = marks(found, lines, pictures, functions)
    passed = [check for check in verdict.checks if check.status == "pass"]
    drawn = [
        (check, figures.figure(check.diagram, bool(scripts)), number)
        for number, check in enumerate(passed, len(found) + 1)
    ]
    at = {each.number: [mark.line for mark in marked if each.number in mark.findings] for each in found}
    return render(
        "feedback.html",
        scripts,
        title=f"{title}: {number(verdict.points)} of {number(verdict.max_points)} points",
        heading=title,
        verdict=verdict,
        learner=learner,
        when=when,
        note=note,
        share=verdict.points / verdict.max_points if verdict.max_points else 0.0,
        tone="good" if verdict.passed else "mixed" if verdict.points else "bad",
        rows=list(_rows(verdict, found)),
        findings=[_told(verdict, *each, at[each[0].number]) for each in zip(found, pictures, strict=True)],
        things=len(things),
        unjudged=sum(len(each.checks) for each in found if each not in things),
        numbers=list(numbers.rows(verdict.checks)),
        linked=open_lines(len(lines), {mark.line for mark in marked}),
        lines=lines,
        marked=marked,
        stretches=list(stretches(lines, marked)),
        passed=drawn,
        drawn=any(picture for _, picture, _ in drawn),
    )


def _exercise(asked: str) -> tuple[str, Sequence[str]]:
    """The exercise's title and the names of its functions, as far as it is known here."""
    from grader.registry import find
    from grader.submission import BadRequest

    try:
        found = find(asked)
    except BadRequest:
        return asked, ()
    return found.title, found.function_names


def _rows(verdict: Verdict, found: Sequence[Finding]) -> Iterator[dict[str, Any]]:
    """For each check its points, and where it is told of."""
    belongs = {check.name: finding.number for finding in found for check in finding.checks}
    most = max((check.max_points for check in verdict.checks), default=1.0) or 1.0
    for check in verdict.checks:
        sign, word, tone = _SHOWN[check.status]
        share = check.points / check.max_points if check.max_points else 0.0
        wide = 100 * check.max_points / most
        yield {"check": check, "sign": sign, "word": word, "tone": tone, "share": share, "wide": wide,
               "finding": belongs.get(check.name)}  # fmt: skip


def _told(verdict: Verdict, finding: Finding, picture: Figure | None, lines: Sequence[int]) -> dict[str, Any]:
    """What the page says of a finding."""
    found, check = finding.diagnosis, finding.first
    title, meaning = kinds.title(found.kind), kinds.meaning(found.kind)
    if check.status == "error":
        title, meaning = "Not graded", "The grading itself failed. This says nothing about your code."
    to_learn = check.status == "fail" and found.kind != "syntax_error"  # else nothing about the exercise
    return {
        "finding": finding,
        "title": title,
        "meaning": meaning,
        "others": [other for other in finding.checks[1:] if _says_more(other, found.message)],
        "elements": values.elements(found),
        "lines": list(dict.fromkeys(lines)),
        "picture": picture,
        "output": _output(check.output),
        "read": reading(verdict.exercise, check.name, found.kind) if to_learn else None,
    }


def _says_more(other: CheckResult, message: str) -> bool:
    """Whether a check that lost its points by the same tells other numbers."""
    return other.diagnosis is not None and other.diagnosis.message != message


def _output(text: str) -> str:
    """What was printed; of much the beginning and the end."""
    if len(text) <= _MOST_OUTPUT:
        return text
    left_out = len(text) - _MOST_OUTPUT
    return f"{text[: _MOST_OUTPUT - 1000]}\n… {left_out:,} characters left out …\n{text[-1000:]}"
