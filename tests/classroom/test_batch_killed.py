"""A run that is killed at any point loses nothing, and grades nothing twice."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from killed_class import POINTS, STUDENTS

UNRECORDED = {"when a verdict is there, before its record", "in the middle of writing a record"}


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    program = Path(__file__).with_name("killed_class.py")
    done = subprocess.run(
        [sys.executable, program, tmp_path_factory.mktemp("killed")], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("point", POINTS)
def test_the_next_run_goes_on_where_it_was_killed(seen: dict[str, Any], point: str) -> None:
    whole, there = seen[""], seen[point]
    (status, graded), (last_status, graded_last) = there["killed"], there["last"]
    assert (status, last_status) == (-9, 0)
    assert not set(there["kept"]) & set(graded_last), "graded twice"
    assert set(there["kept"]) | set(graded_last) == set(STUDENTS), "lost"
    assert len(graded) - len(there["kept"]) == (point in UNRECORDED)
    assert there["scores"] == whole["scores"]
    assert there["files"] == whole["files"], "something was left, or is missing"


def test_a_run_that_is_not_killed(seen: dict[str, Any]) -> None:
    assert seen[""]["last"] == [0, list(STUDENTS)]
    assert seen[""]["scores"] == [[20, False], [0, False], [20, False]]
