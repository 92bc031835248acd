"""Graded cells: which check one asks for, and the service's record in place of what a kernel printed."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from grader.classroom import report
from grader.classroom.check import MIME, Score
from grader.submission import BadRequest
from grader.verdict import CheckResult, Verdict


@dataclass(frozen=True)
class Asked:
    """What a graded cell asks for: `check(function, "check")`; `check` is None where all of them are asked for.

    `exercise` is what exercise=... named. `alone` says that nothing else in the cell could fail; where it is False, the
    cell holds statements of the teacher's own too.
    """

    function: str
    check: str | None
    exercise: str | None = None
    alone: bool = True

    @property
    def owner(self) -> str:
        """What `grader.exercise.owner` finds the exercise by."""
        return self.exercise or self.function


def asked(source: str) -> Asked | None:
    """What the last expression of a graded cell asks for; None if that is no call of check()."""
    try:
        body = ast.parse(_without_magics(source)).body
    except (SyntaxError, ValueError, RecursionError):
        return None
    if not body or not isinstance(body[-1], ast.Expr) or not isinstance(body[-1].value, ast.Call):
        return None
    call = body[-1].value
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    given |= dict(zip(("function", "name", "seed", "exercise"), call.args, strict=False))
    function = given.get("function")
    if not _is_check(call.func) or not isinstance(function, ast.Name):
        return None
    names = {key: _text(given[key]) for key in ("name", "exercise") if key in given}
    if not all(isinstance(name, str | None) for name in names.values()):
        return None
    alone = all(isinstance(statement, (ast.Import, ast.ImportFrom, ast.Pass)) for statement in body[:-1])
    return Asked(function.id, names.get("name"), names.get("exercise"), alone)


def imports(source: str) -> str:
    """What stands before the last expression of a cell from which `asked` gave something that is alone."""
    return "\n".join(map(ast.unparse, ast.parse(_without_magics(source)).body[:-1]))


def _without_magics(source: str) -> str:
    return "\n".join("pass" if line.startswith(("%", "!")) else line for line in source.splitlines())


def _is_check(called: ast.expr) -> bool:
    if isinstance(called, ast.Attribute):
        return called.attr == "check" and isinstance(called.value, ast.Name) and called.value.id == "grader"
    return isinstance(called, ast.Name) and called.id == "check"


def _text(node: ast.expr) -> Any:
    """A constant's value; something that is neither text nor None where it is no constant."""
    return node.value if isinstance(node, ast.Constant) else node


def write_record(cell: Any, verdict: Verdict, check: str | None) -> float:
    """Replace a cell's outputs by what the grading service recorded, and return the points.

    `check` is the one that the cell asks for, or None for all of them. A cell gives at most the points that nbgrader
    knows it by. Raises BadRequest where the verdict has no such check.
    """
    if check is None:
        return _write(cell, verdict.checks, report.verdict_html(verdict))
    try:
        result = verdict.check(check)
    except KeyError:
        known = ", ".join(result.name for result in verdict.checks)
        raise BadRequest(f"{verdict.exercise} has no check {check!r}; it has {known}") from None
    return _write(cell, [result], report.check_html(result))


def _write(cell: Any, checks: Sequence[CheckResult], html: str) -> float:
    from nbformat.v4 import new_output

    worth = cell.metadata.get("nbgrader", {}).get("points")
    score = Score.of(checks, html)
    points = float(score) if worth is None else min(float(score), float(worth))
    data = {"text/plain": repr(points), "text/html": html, MIME: [result.to_json() for result in checks]}
    cell.outputs = [new_output("execute_result", data, execution_count=cell.get("execution_count"))]
    return points


def write_failure(cell: Any, sentence: str) -> float:
    """Replace a cell's outputs by one sentence on why it was not graded: no points, which are returned."""
    from nbformat.v4 import new_output

    cell.outputs = [new_output("error", ename="NotGraded", evalue=sentence, traceback=[f"NotGraded: {sentence}"])]
    return 0.0
