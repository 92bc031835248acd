"""A run that is killed at any point loses nothing, and grades nothing twice."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from killed_class import POINTS, STUDENTS

UNRECORDED = {"when a verdict is there, before its record", "in the middle of writing a record"}


def wrong(point: str, there: dict[str, Any], whole: dict[str, Any]) -> Iterator[str]:
    """What is not as it should be where a run was killed at a point, next to a run that was not."""
    (status, graded), (last_status, graded_last) = there["killed"], there["last"]
    if (status, last_status) != (-9, 0):
        yield f"it ended with {status}, and then with {last_status}"
    if set(there["kept"]) & set(graded_last):
        yield "graded twice"
    if set(there["kept"]) | set(graded_last) != set(STUDENTS):
        yield "a submission was lost"
    if len(graded) - len(there["kept"]) != (point in UNRECORDED):
        yield f"{graded} were graded and {there['kept']} kept"
    if there["scores"] != whole["scores"]:
        yield f"the scores are {there['scores']}"
    if there["files"] != whole["files"]:
        yield f"left or missing: {set(there['files']) ^ set(whole['files'])}"


@pytest.mark.heavy
def test_the_next_run_goes_on_where_one_was_killed(tmp_path: Path) -> None:
    """One test for all points: what takes long is what they share."""
    program = Path(__file__).with_name("killed_class.py")
    done = subprocess.run([sys.executable, program, tmp_path], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    whole = seen.pop("")
    assert whole["last"] == [0, list(STUDENTS)]
    assert whole["scores"] == [[20, False], [0, False], [20, False]]
    assert list(seen) == list(POINTS)
    assert {point: found for point in POINTS if (found := list(wrong(point, seen[point], whole)))} == {}
