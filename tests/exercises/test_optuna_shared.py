"""What is said of studies that are not as they should be, without running anything; and where Optuna is missing."""

from __future__ import annotations

import copy
import importlib.util
from types import SimpleNamespace
from typing import Any

import pytest

from grader.exercises.optuna_shared import studies
from grader.lost import Lost, Unable
from grader.trace.gantt import svg
from grader.worlds.cases import Case

SEARCH = {
    "ranks": 2, "total": 2, "at_once": 2, "problem": "", "unnoticed": False,
    "unreadable": "", "end": 1.0, "studies": ["search"], "direction": ["MINIMIZE"],
    "ended": [{"event": "returned"}, {"event": "returned"}],
    "asked": [
        {"rank": n, "number": n, "x": 0.5 + n, "size": 3, "begin": 0.1, "end": 0.5, "became": "done", "value": 7.0 + n}
        for n in range(2)
    ],
    "trials": [{"number": n, "state": "COMPLETE", "x": 0.5 + n, "size": 3, "value": 7.0 + n} for n in range(2)],
}  # fmt: skip


def bench(*searches: dict[str, Any]) -> Any:
    """A bench on which these searches were made."""

    def calls(group: str) -> Any:
        yield Case(group, "two processes", ((),)), SimpleNamespace(returned=(list(searches),))

    return SimpleNamespace(calls=calls, program=SimpleNamespace(file="a.py"))


def spoilt(change: Any) -> dict[str, Any]:
    told = copy.deepcopy(SEARCH)
    change(told)
    return told


def end(told: dict[str, Any], **event: Any) -> None:
    told["ended"][1] = {"event": "raised", **event}


def add(told: dict[str, Any], **more: Any) -> None:
    told["trials"].append(told["trials"][0] | more)


def kill(told: dict[str, Any]) -> None:
    told["asked"][0].update(became="killed")
    told["trials"][0].update(state="RUNNING")


@pytest.mark.parametrize(
    ("check", "change", "kind", "says"),
    [
        ("exact", lambda t: add(t, number=2, state="RUNNING"), "lost_or_duplicated", "trial 2 was still RUNNING"),
        ("exact", lambda t: add(t), "lost_or_duplicated", "2 trials have the number 0"),
        ("exact", lambda t: t["trials"].pop(), "lost_or_duplicated", "1 trial is complete instead of 2"),
        ("exact", lambda t: t.update(total=1), "lost_or_duplicated", "2 trials are complete, but trials_total is 1"),
        ("shared", lambda t: t.update(at_once=1), "too_slow", "never more than 1 of 2"),
        ("shared", lambda t: t.update(direction=["MAXIMIZE"]), "wrong_result", "the direction MAXIMIZE"),
        ("shared", lambda t: t.update(trials=[]), "wrong_result", "no trials in the study"),
        (
            "shared",
            lambda t: t["trials"][1].update(value=0.0),
            "wrong_result",
            "is complete with value = 0.0, but objective() gave 8.0",
        ),
        ("shared", lambda t: t["asked"].pop(), "wrong_result", "objective() gave it no value"),
        ("shared", lambda t: t.update(problem="file is not a database"), "wrong_result", "cannot be read any more"),
        ("shared", lambda t: end(t, type="E", text="no\x00", line=4), "crash", "E: no?"),
        ("shared", lambda t: end(t, why="stuck", text="it stands"), "deadlock", "process 1 of 2 never returned"),
        ("killed", lambda t: None, "wrong_result", "no process could be killed"),
        ("killed", kill, "not_durable", "the trial was RUNNING"),
        ("slow", lambda t: t["trials"][0].update(state="FAIL"), "lost_or_duplicated", "was not killed"),
    ],
)
def test_what_is_wrong_is_said(check: str, change: Any, kind: str, says: str) -> None:
    pytest.importorskip("optuna")
    told = spoilt(change)
    with pytest.raises(Lost) as lost:
        getattr(studies, check)(bench(told))
    assert lost.value.diagnosis.kind == kind
    assert says in lost.value.diagnosis.message
    assert lost.value.picture is not None
    assert "svg" in svg(lost.value.picture)


def test_a_study_as_it_should_be_is_drawn() -> None:
    pytest.importorskip("optuna")
    chart = studies.shared(bench(SEARCH))
    assert chart.lanes == ("process 0", "process 1")
    assert [bar.text for bar in chart.bars] == ["trial 0", "trial 1"]


def test_without_optuna_there_is_one_sentence_and_no_point(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(Unable, match=r"Optuna is not installed. Install it: pip install 'rankup\[jobs\]'"):
        studies.exact(bench(SEARCH))
