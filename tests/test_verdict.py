"""Verdicts: points, JSON in and out, and what can not be said."""

from __future__ import annotations

import json

import pytest

from grader.verdict import CheckResult, Diagnosis, Verdict

FOUND = Diagnosis("deadlock", "a cycle", rank=1, file="a.py", line=3, expected="x", got="y")
VERDICT = Verdict(
    "ring_all_reduce",
    (
        CheckResult("sum", "The sum", 4, 4, "pass", None, "<svg/>", "rank 0 printed: hi"),
        CheckResult("bytes", "Bytes", 0, 4, "fail", FOUND),
    ),
    seed=7,
    seconds=1.23456,
    engines=("gloo",),
)


def test_points_add_up_and_one_lost_check_is_not_a_pass() -> None:
    assert (VERDICT.points, VERDICT.max_points, VERDICT.passed) == (4, 8, False)
    assert VERDICT.first_failure is VERDICT.checks[1]


def test_a_verdict_without_checks_does_not_pass() -> None:
    assert not Verdict("x", (), 0, 0, ()).passed


def test_json_has_exactly_the_documented_keys() -> None:
    data = VERDICT.to_json()
    assert list(data) == ["exercise", "points", "max_points", "passed", "seed", "seconds", "engines", "checks"]
    assert list(data["checks"][1]) == ["name", "points", "max_points", "status", "diagnosis", "measured"]
    assert list(data["checks"][1]["diagnosis"]) == ["kind", "message", "rank", "file", "line", "expected", "got"]
    json.dumps(data)


def test_a_report_comes_back_whole() -> None:
    again = Verdict.from_report(VERDICT.report_json())
    assert again.checks == VERDICT.checks
    assert (again.seed, again.engines) == (7, ("gloo",))


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"verdict": {}, "extra": []}', '{"verdict": 3, "extra": 4}'])
def test_what_is_no_report_is_refused(text: str) -> None:
    with pytest.raises((ValueError, KeyError, TypeError)):
        Verdict.from_report(text)


def test_a_check_cannot_pass_with_a_diagnosis_nor_fail_with_points() -> None:
    with pytest.raises(ValueError, match="passed and yet"):
        CheckResult("a", "A", 1, 1, "pass", FOUND)
    with pytest.raises(ValueError, match="gives points although"):
        CheckResult("a", "A", 1, 1, "fail", FOUND)


def test_a_picture_is_drawn_once_and_only_if_somebody_looks() -> None:
    drawn: list[str] = []

    def draw() -> str:
        drawn.append("<svg/>")
        return drawn[-1]

    check = CheckResult("a", "A", 1, 1, "pass", diagram=draw)  # type: ignore[arg-type]
    check.to_json()
    assert not drawn
    assert (check.diagram, check.diagram) == ("<svg/>", "<svg/>")
    assert len(drawn) == 1
    assert CheckResult("a", "A", 1, 1, "pass").diagram is None


def test_a_kind_that_is_not_in_the_list_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown kind"):
        Diagnosis("too_bad", "no")  # type: ignore[arg-type]
