"""Hints one by one, the solution after full marks, and what comes after them."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest

from grader import catalog, progress, registry
from grader.classroom import lesson, own
from grader.submission import BadRequest
from grader.verdict import CheckResult, Diagnosis, Kind, Status, Verdict

RING = "ring_all_reduce"


@pytest.fixture(autouse=True)
def learner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Somebody who has done nothing yet, in a folder of their own."""
    monkeypatch.setenv("RANKUP_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def graded(points: float, kind: Kind = "deadlock") -> None:
    """A verdict is remembered: of 20 points the first check has 16."""
    first = CheckResult("sum", "The sum", 16.0 if points else 0.0, 16.0, *_status(points > 0, kind))
    last = CheckResult("bytes", "The bytes", 4.0 if points == 20 else 0.0, 4.0, *_status(points == 20, kind))
    verdict = Verdict(RING, (first, last), 1, 1.0, ("sim",))
    progress.record_checks(verdict)
    progress.record(verdict)


def _status(right: bool, kind: Kind) -> tuple[Status, Diagnosis | None]:
    return ("pass", None) if right else ("fail", Diagnosis(kind, "It hangs."))


@pytest.mark.parametrize("name", registry.names())
def test_every_exercise_has_hints_and_what_the_interviewer_asks_next(name: str) -> None:
    assert len(lesson.hints(name)) >= 2
    assert all(hint.title and hint.text for hint in lesson.hints(name))
    assert re.match(r"1\. ", lesson.follow_ups(name))


def test_hints_are_given_one_by_one(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(BadRequest, match="no hint for ring_all_reduce yet"):
        lesson.print_hint(RING, again=True)
    listed = lesson.hints(RING)
    for number, hint in enumerate(listed, 1):
        lesson.print_hint(RING)
        said = capsys.readouterr().out
        assert f"Hint {number} of {len(listed)}: {hint.title}" in said
        assert said.count("Hint ") == 1
    with pytest.raises(BadRequest, match=r"all 3 hints for ring_all_reduce\. --again shows them"):
        lesson.print_hint(RING)
    lesson.print_hint(RING, again=True)
    assert capsys.readouterr().out.count("Hint ") == len(listed)


@pytest.mark.parametrize(
    ("kinds", "offered"),
    [
        (["deadlock"] * 2, False),
        (["deadlock"] * 3, True),
        (["deadlock", "crash", "deadlock"], False),
        (["crash", "deadlock", "deadlock", "deadlock"], True),
    ],
)
def test_a_hint_is_offered_when_the_same_goes_wrong_again(
    kinds: list[Kind], offered: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    for kind in kinds:
        graded(0, kind)
    lesson.print_offer(RING)
    assert ("`rankup hint ring_all_reduce`" in capsys.readouterr().out) == offered


def test_a_right_one_ends_the_count(capsys: pytest.CaptureFixture[str]) -> None:
    for points in (0, 0, 20, 0):
        graded(points)
    lesson.print_offer(RING)
    assert capsys.readouterr().out == ""


def test_the_solution_is_for_who_has_full_marks_or_gives_up(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(BadRequest, match="you have not graded it yet"):
        lesson.print_solution(RING)
    graded(16)
    with pytest.raises(BadRequest, match="you have 16 of 20 points"):
        lesson.print_solution(RING)
    lesson.print_solution(RING, give_up=True)
    assert "def ring_all_reduce" in capsys.readouterr().out
    graded(20)
    own.start(RING)
    lesson.print_solution(RING)
    said = capsys.readouterr().out
    [line] = [line for line in said.splitlines() if "def ring_all_reduce" in line]
    assert line.count("def ring_all_reduce") == 2, "the solution next to the learner's own"
    assert "### " not in said


def test_full_marks_end_with_what_the_interviewer_asks(learner: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = own.start(RING).path
    lesson.print_ending(RING, path)
    said = capsys.readouterr().out
    assert "The interviewer goes on" in said
    assert "`rankup solution ring_all_reduce`" in said
    lesson.print_ending(RING, learner / "other.py")
    assert "rankup solution" not in capsys.readouterr().out


def test_a_solution_that_is_not_here_is_told(learner: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = catalog.exercise_notebook(RING)
    (learner / "exercises" / "06").mkdir(parents=True)
    nbformat.write(nbformat.read(given, as_version=4), learner / "exercises" / "06" / given.name)
    monkeypatch.setattr(catalog, "root", lambda: learner)
    with pytest.raises(BadRequest, match="the notebook of ring_all_reduce is missing from"):
        lesson.print_solution(RING, give_up=True)
