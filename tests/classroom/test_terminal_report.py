"""A verdict in the terminal: each mistake is told once, with what it cost and what its values are."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace
from unittest import mock

import pytest
from rich.console import Console
from sample_pages import DEADLOCK, PASSED, WRONG, lost, verdict

from grader import grading, registry
from grader.classroom import terminal
from grader.ranks.engines import Engines
from grader.submission import Submission
from grader.verdict import CheckResult

AGAIN = replace(WRONG, message="With 3 ranks, 7 int64: on rank 1, 2 of 7 elements are wrong: element 4 holds the value "
                               "of rank 2 alone.")  # fmt: skip
UNJUDGED = replace(AGAIN, message=f"Not judged, because the sum is wrong. {AGAIN.message}")
APART = replace(UNJUDGED, message=UNJUDGED.message.replace("alone", "twice"))
CAUSED = replace(WRONG, message="With 2 ranks, 3 int64: on rank 0, 1 of 3 elements are wrong: element 1 counts rank 0 "
                                "twice. Rank 1 adds chunk 1 again.")  # fmt: skip
CAUSED_TOO = replace(WRONG, message="With 3 ranks, 7 int64: on rank 0, every element is wrong: element 0 is the sum of "
                                    "ranks 0 and 1 only. Rank 2 adds chunk 0 again.")  # fmt: skip
LAYOUT = replace(WRONG, message=WRONG.message.replace("3 int64", "x[::3] of 6 int64"))
LATER = replace(DEADLOCK, rank=1)


def said(checks: Sequence[CheckResult], hint: str = "") -> str:
    """What is printed of these checks, without line ends."""
    written = io.StringIO()
    with mock.patch.object(terminal, "Console", return_value=Console(file=written, width=100, highlight=False)):
        report = terminal.TerminalReport(hint)
    for check in checks:
        report.check(check)
    report.summary(verdict(*checks))
    return " ".join(written.getvalue().split())


READ = "read chapter 06, The ring"
TOGETHER = f"1. Wrong result: -8 points in sum, bytes {READ} 2. Deadlock, line 6: -2 points in steps"


@pytest.mark.parametrize(
    ("checks", "words"),
    [
        ([lost("sum", WRONG), lost("any", AGAIN)], "wrong_result: as above, with 3 ranks, 7 int64"),
        ([lost("sum", WRONG), lost("any", AGAIN)], "1 thing to fix: -8 points"),
        ([lost("sum", WRONG), lost("bytes", UNJUDGED)], "Not judged, because the sum is wrong: as above"),
        ([lost("sum", CAUSED), lost("any", CAUSED_TOO)], "as above, with 3 ranks, 7 int64"),
        ([lost("steps", DEADLOCK), lost("large", LATER)], "deadlock: as above, at line 6"),
        ([lost("sum", WRONG), lost("steps", DEADLOCK, 2), lost("bytes", UNJUDGED)], "2 things to fix: -10 points"),
        ([lost("sum", WRONG), lost("steps", DEADLOCK, 2), lost("bytes", UNJUDGED), PASSED], TOGETHER),
        (
            [lost("sum", WRONG), lost("bytes", APART)],
            f"1 thing to fix: -8 points 1. Wrong result: -4 points in sum {READ} Not judged yet: -4 points in bytes",
        ),
        ([lost("bytes", APART)], "1 thing to fix: -4 points 1. Wrong result: -4 points in bytes"),
        ([lost("sum", WRONG), lost("layout", LAYOUT)], "as above, with 2 ranks, x[::3] of 6 int64"),
        ([lost("sum", WRONG)], "element expected got that is 1 9 5 rank 0 alone"),
        ([lost("sum", DEADLOCK, 1)], "Deadlock, line 6: -1 point in sum"),
    ],
)
def test_a_mistake_is_told_once(checks: list[CheckResult], words: str) -> None:
    assert words in said(checks)


def test_another_mistake_of_the_same_kind_is_told_too() -> None:
    other = replace(WRONG, message=WRONG.message.replace("alone", "twice"))
    assert "as above" not in said([lost("sum", WRONG), lost("any", other)])


def test_the_page_is_offered_where_there_is_something_to_fix() -> None:
    assert "--html" in said([lost("sum", WRONG)], terminal.HTML)
    assert "--html" not in said([PASSED], terminal.HTML)
    assert "to fix" not in said([PASSED])


def test_of_many_wrong_values_the_first_are_shown() -> None:
    many = replace(
        WRONG, expected="[1, 2, 3, 4, 5, 6]", got=f"[{', '.join(f'{k} (rank 0 alone)' for k in range(10, 16))}]"
    )
    assert said([lost("sum", many)]).count("rank 0 alone") == 1 + 4
    assert "... and 2 more elements" in said([lost("sum", many)])


def test_a_stub_is_not_written_yet(engines: Engines) -> None:
    source = "def ring_all_reduce(tensor):\n    raise NotImplementedError()\n"
    result = grading.grade(registry.find("ring_all_reduce"), Submission(source, "a.py"), engines, 7)
    assert {check.diagnosis.kind for check in result.checks if check.diagnosis} == {"crash"}
    told = said(result.checks)
    assert told.count("Not written yet: line 2 is still `raise NotImplementedError`.") == 1
    assert told.count("as above, at line 2") == len(result.checks) - 1
    assert "Traceback" not in told
