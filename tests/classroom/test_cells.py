"""Which check a graded cell asks for, and the record that is written into it."""

from __future__ import annotations

import pytest
from nbformat.v4 import new_code_cell, new_output
from nbgrader.utils import determine_grade

from grader.classroom.cells import Asked, asked, imports, write_failure, write_record
from grader.classroom.check import MIME
from grader.submission import BadRequest
from grader.verdict import CheckResult, Diagnosis, Verdict

# a cell's text, and what it asks for
CELLS = [
    ('check(f, "sum")', Asked("f", "sum")),
    ("check(f)", Asked("f", None)),
    ('from grader import check\n\ncheck(f, name="sum")', Asked("f", "sum")),
    ('# Graded later\n### BEGIN HIDDEN TESTS\ncheck(f, "sum")\n### END HIDDEN TESTS', Asked("f", "sum")),
    ('import grader\ngrader.check(f, "sum", exercise="g")', Asked("f", "sum", "g")),
    ('%matplotlib inline\ncheck(f, "sum")', Asked("f", "sum")),
    ('assert f(1) == 2\ncheck(f, "sum")', Asked("f", "sum", alone=False)),
    ('check(f, "sum")\nassert f(1) == 2', None),
    ("check(f, name)", None),
    ("check(f(), 'sum')", None),
    ("check()", None),
    ("other.check(f)", None),
    ("20.0", None),
    ("check(f", None),
    ("", None),
]


@pytest.mark.parametrize(("text", "wanted"), CELLS, ids=[text.splitlines()[-1] if text else "" for text, _ in CELLS])
def test_what_a_cell_asks_for(text: str, wanted: Asked | None) -> None:
    assert asked(text) == wanted


def test_an_exercise_is_found_by_its_name_or_else_by_the_function() -> None:
    assert [Asked("f", None, "g").owner, Asked("f", None).owner] == ["g", "f"]


def test_imports_are_what_stands_before_the_call() -> None:
    assert imports("%time\nfrom grader import check\ncheck(f)") == "pass\nfrom grader import check"
    assert imports("check(f)") == ""


WHY = Diagnosis("deadlock", "Deadlock: <b>everybody</b> waits.")
VERDICT = Verdict(
    "f",
    (CheckResult("sum", "Sums", 4.0, 4.0, "pass"), CheckResult("bytes", "Few bytes", 0.0, 3.0, "fail", WHY)),
    1,
    0.1,
    ("sim",),
)

# check, what the cell is worth, its points
RECORDS = [("sum", 4.0, 4.0), ("bytes", 3.0, 0.0), (None, 7.0, 4.0), ("sum", 1.0, 1.0), ("sum", None, 4.0)]


@pytest.mark.parametrize(("check", "worth", "points"), RECORDS)
def test_the_record_takes_the_place_of_all_that_the_kernel_said(
    check: str | None, worth: float | None, points: float
) -> None:
    mark = {"grade": True, "grade_id": "a", "solution": False, "locked": True, "points": worth}
    forged = [
        new_output("stream", name="stderr", text="noise"),
        new_output("execute_result", {"text/plain": "99.0", MIME: []}),
        new_output("error", ename="E", evalue="", traceback=[]),
    ]
    cell = new_code_cell("check(f)", metadata={"nbgrader": mark}, outputs=forged)
    assert write_record(cell, VERDICT, check) == points
    [output] = cell.outputs
    assert output.data["text/plain"] == repr(points)
    assert [each["name"] for each in output.data[MIME]] == ([check] if check else ["sum", "bytes"])
    assert "<b>everybody" not in output.data["text/html"]
    if worth is not None:
        assert determine_grade(cell) == (points, worth)


def test_a_check_that_does_not_exist_is_said_to_be_none() -> None:
    with pytest.raises(BadRequest, match="f has no check 'bites'; it has sum, bytes"):
        write_record(new_code_cell(""), VERDICT, "bites")


def test_what_was_not_graded_gets_no_points_and_says_why() -> None:
    mark = {"grade": True, "grade_id": "a", "solution": False, "locked": True, "points": 3}
    cell = new_code_cell("check(f)", metadata={"nbgrader": mark})
    assert write_failure(cell, "no exercise is called 'f'") == 0
    assert determine_grade(cell) == (0, 3)
    assert cell.outputs[0].evalue == "no exercise is called 'f'"
