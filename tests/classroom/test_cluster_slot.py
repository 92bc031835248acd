"""What runs on a machine of a cluster: one try at a job, whatever the worker does, and what grades there."""

from __future__ import annotations

import json
import os
import re
import sys
from dataclasses import replace
from typing import Any

import psutil
import pytest

from grader.classroom.batch.cluster import slot
from grader.classroom.batch.pool import Job
from grader.sandbox import modes

JOB = Job("ada", "notebook", "exercise", "grades", 5, 60.0)
WORKER = """
import json, os, signal, sys
for line in sys.stdin:
    what = json.loads(line)["cells"][0]
    if what == "dies":
        os.kill(os.getpid(), signal.SIGKILL)
    if what == "hangs":
        signal.pause()
    verdict = {"exercise": str(os.getpid()), "checks": [], "seed": 5, "seconds": 1.0, "engines": []}
    print(json.dumps({"verdict": verdict, "extra": []}), flush=True)
"""


def tried(where: slot.Slot, **changes: Any) -> dict[str, Any]:
    """What is answered to a job."""
    answer: dict[str, Any] = json.loads(where.grade(replace(JOB, **changes).to_json()))
    assert answer["seconds"] >= 0
    return answer


FAILURES = {
    "dies": ({"source": "dies"}, "the worker was ended by SIGKILL"),
    "hangs": ({"source": "hangs", "deadline": 0.2}, "the grading took more than 0.2 seconds"),
}


@pytest.mark.parametrize(("changes", "problem"), FAILURES.values(), ids=FAILURES.keys())
def test_a_worker_that_fails_is_replaced(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], problem: str
) -> None:
    monkeypatch.setattr(slot, "COMMAND", [sys.executable, "-S", "-c", WORKER])
    where = slot.Slot(trust=True)
    where.get_ready()
    first, again = (tried(where)["verdict"]["exercise"] for _ in range(2))
    assert first == again  # it is warm
    assert tried(where, **changes)["problem"] == problem
    last = tried(where)["verdict"]["exercise"]
    assert not psutil.pid_exists(int(first))
    tried(where, source="dies")
    assert not psutil.pid_exists(int(last))


def test_a_worker_that_cannot_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slot, "COMMAND", ["/no/such/program"])
    where = slot.Slot(trust=True)
    where.get_ready()
    assert tried(where)["problem"] == "no worker can be started (No such file or directory)"


@pytest.mark.parametrize(("trust", "least"), [(True, ""), (False, "full")])
def test_only_trusted_submissions_go_without_a_box(monkeypatch: pytest.MonkeyPatch, trust: bool, least: str) -> None:
    monkeypatch.setenv(modes.LEAST, "")
    slot.Slot(trust)
    assert os.environ[modes.LEAST] == least


def test_what_there_is_here() -> None:
    found = json.loads(slot.look())
    assert re.fullmatch(r"rankup .+ \([0-9a-f]{12}\), torch [0-9.]+", found["version"])
    assert found["cores"] >= 1
    assert bool(found["why"]) == (found["mode"] != "full")
