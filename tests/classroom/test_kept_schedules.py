"""Schedules that broke nodes: what `rankup grade --keep` writes is what `--replay` reads, and nothing else is."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from grader import grading, registry
from grader.authoring import wrong
from grader.classroom import schedules
from grader.ranks.engines import Engines
from grader.submission import BadRequest, Submission
from grader.verdict import CheckResult, Verdict

WRONG = wrong.find("two_phase_commit/client_told_before_it_is_logged").submission
RIGHT = wrong.reference("two_phase_commit")


def verdict(engines: Engines, handed_in: Submission, replayed: dict[str, Any] | None = None) -> Verdict:
    """On the explored check alone."""
    found = grading.only(registry.find("two_phase_commit"), "atomic")
    return grading.grade(found, handed_in, engines, 1, replayed=replayed)


def test_a_kept_schedule_is_wrong_again_and_right_where_the_bug_is_not(engines: Engines, tmp_path: Path) -> None:
    first = verdict(engines, WRONG)
    (path,) = schedules.keep(first, tmp_path)
    kept = schedules.read(path, "two_phase_commit")
    again = verdict(engines, WRONG, kept)
    assert again.checks[0].diagnosis == first.checks[0].diagnosis
    assert verdict(engines, RIGHT, kept).passed


def test_a_schedule_that_does_not_fit_gives_no_points(engines: Engines, tmp_path: Path) -> None:
    (path,) = schedules.keep(verdict(engines, WRONG), tmp_path)
    kept = schedules.read(path, "two_phase_commit")
    for action in kept["actions"]:
        if action["do"] == "deliver":
            action["body"] = {"type": "of another protocol"}
    (found,) = verdict(engines, RIGHT, kept).checks
    assert (found.status, found.points) == ("skipped", 0)
    assert found.diagnosis is not None
    assert "steps of the schedule are possible" in found.diagnosis.message


PLAN = {
    "members": [{"name": "n0", "kind": "Coordinator", "peers": [], "settings": {}, "offset": 0.0, "rate": 1.0}],
    "asks": {}, "mishaps": [], "network": {}, "seed": 1,
}  # fmt: skip
GOOD = {"exercise": "two_phase_commit", "check": "atomic", "search": 1, "seed": 1}
MISHAP = {"what": "fly", "at": 1.0, "until": 2.0, "groups": [["n0"]]}
BAD = {
    "no JSON": ("x", "not JSON"),
    "binary": ("\x00\x01", "not JSON"),
    "a list": ("[]", "is not a schedule"),
    "nothing to play": (json.dumps(GOOD), "is not a schedule"),
    "of another exercise": (json.dumps({**GOOD, "exercise": "raft", "actions": []}), "is a schedule for raft"),
    "no such step": (json.dumps({**GOOD, "actions": [{"do": "fly"}]}), "was changed"),
    "a message without a body": (
        json.dumps({**GOOD, "actions": [{"do": "deliver", "src": "n0", "dst": "n1", "body": None}]}),
        "was changed",
    ),
    "half a plan": (json.dumps({**GOOD, "plan": {"members": []}}), "was changed"),
    "no such class": (
        json.dumps({**GOOD, "plan": {**PLAN, "members": [{**PLAN["members"][0], "kind": "Nobody"}]}}),  # type: ignore[index]
        "was changed",
    ),
    "no such mishap": (json.dumps({**GOOD, "plan": {**PLAN, "mishaps": [MISHAP]}}), "was changed"),
}


@pytest.mark.parametrize(("text", "words"), BAD.values(), ids=BAD.keys())
def test_what_is_no_schedule_is_one_sentence(text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(BadRequest, match=words):
        schedules.read(path, "two_phase_commit")


def test_a_plan_that_fits_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps({**GOOD, "plan": PLAN}))
    assert schedules.read(path, "two_phase_commit")["plan"] == PLAN


def test_checks_without_a_schedule_leave_no_file(tmp_path: Path) -> None:
    passed = CheckResult("a", "A", 1, 1, "pass")
    lost = replace(passed, name="b", points=0, status="fail")
    assert schedules.keep(Verdict("raft", (passed, lost), 1, 0.1, ("sim",)), tmp_path) == []
