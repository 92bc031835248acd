"""What is said of answers that are not as they should be, without running anything; and where FastAPI is missing."""

from __future__ import annotations

import copy
import importlib.util
import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from grader.exercise import Draw
from grader.exercises.serve_checkpoint import serving
from grader.exercises.serve_checkpoint.answering import problem, reason, values
from grader.exercises.serve_checkpoint.checkpoints import Plan, cases, net
from grader.lost import Lost, Unable
from grader.registry import find
from grader.trace.gantt import svg
from grader.worlds.cases import Case

CASES = list(cases(Draw(1)))


def told_by_a_right_one(plan: Plan) -> dict[str, Any]:
    """What the harness writes down of a server that answers as it must."""
    answers = []
    for number, ask in enumerate(plan.asks):
        body = {"reason": "the file is cut off"} if ask.right is None else {"predictions": ask.right.tolist()}
        at = {"begin": 0.01 * number, "end": 0.01 * number + 0.004}
        answers.append({"status": ask.status, "body": json.dumps(body), "error": "", "raised": None, **at})
    counts = [{"loads": 1, "states": 1, "opens": 1} for _ in plan.groups]
    return {"up": True, "startup": None, "answers": answers, "counts": counts, "event": None, "ran": False,
            "watched": True, "line": None, "stuck": False, "again": False}  # fmt: skip


def bench(change: Any = lambda told: None, of: str = "") -> Any:
    """A bench on which every case was served rightly, but for what `change` did to the last one of each group, or of
    that group."""

    def calls(group: str) -> Any:
        found = [case for case in CASES if case.group == group]
        for case in found:
            told = copy.deepcopy(told_by_a_right_one(case.expected))
            if case is found[-1] and of in ("", group):
                change(told)
            yield case, SimpleNamespace(returned=(told,))

    return SimpleNamespace(calls=calls, program=SimpleNamespace(file="a.py", source="import os\n\nos.abort()\n"))


def answer(at: int, **changed: Any) -> Any:
    return lambda told: told["answers"][at].update(changed)


RAISED = {"type": "ValueError", "text": "no\x00", "line": 3}
JUDGES = {check.name: check.judge for check in find("serve_checkpoint").checks}


@pytest.mark.parametrize("check", JUDGES)
def test_right_answers_are_right_and_drawn(check: str) -> None:
    pytest.importorskip("fastapi")
    drawn: Any = JUDGES[check](bench())
    assert "svg" in svg(drawn)
    assert all(bar.became in ("done", "still") for bar in drawn.bars)


@pytest.mark.parametrize(
    ("check", "change", "kind", "says"),
    [
        ("answers", answer(1, status=500, raised=RAISED), "crash", "raised ValueError: no? (line 3: `os.abort()`)"),
        ("answers", answer(1, status=404, body="Not Found"), "wrong_result", "instead of 200, with the body Not Found"),
        ("answers", answer(1, body="{"), "wrong_result", 'not a JSON object with "predictions"'),
        ("answers", answer(1, body='{"predictions": [[0]]}'), "wrong_result", "predictions that are not the model's"),
        ("answers", answer(1, status=None, error="RemoteDisconnected: "), "crash", "answered (RemoteDisconnected"),
        ("answers", lambda t: t.update(stuck=True, answers=[], line=3), "timeout", "process stood still) (line 3"),
        ("answers", lambda t: t.update(again=True, answers=[]), "timeout", "not tried"),
        ("answers", lambda t: t.update(up=False, event={"type": "E", "text": "x"}), "crash", "raised E: x"),
        ("answers", lambda t: t.update(up=False, event={}, startup=RAISED), "crash", "startup raised ValueError"),
        ("eval", answer(2, body='{"predictions": [[0, 0]]}'), "wrong_result", "The same request got two answers"),
        ("prefix", answer(1, status=503), "wrong_result", "Take the prefix off"),
        ("once", lambda t: t["counts"][-1].update(loads=6), "too_slow", "torch.load ran 5 times"),
        ("once", lambda t: t["counts"][-1].update(opens=2), "too_slow", "file was opened 1 time while"),
        ("bad_input", answer(3, status=200, body='{"predictions": []}'), "wrong_result", "422"),
        ("bad_input", answer(-1, status=503), "wrong_result", "It came after 23 bad requests"),
        ("ready", answer(1, body='{"ready": false}'), "wrong_result", "does not say why"),
        ("ready", answer(0, status=503), "wrong_result", "GET /health got status 503"),
        ("safe", lambda t: t.update(ran=True), "wrong_result", "loading it ran the code"),
        ("no_lifespan", answer(1, status=503), "wrong_result", "Not every server sends lifespan events"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(check: str, change: Any, kind: str, says: str) -> None:
    pytest.importorskip("fastapi")
    with pytest.raises(Lost) as lost:
        JUDGES[check](bench(change, check))
    assert lost.value.diagnosis.kind == kind
    assert says in lost.value.diagnosis.message
    assert lost.value.picture is not None
    assert "svg" in svg(lost.value.picture)


@pytest.mark.parametrize("check", ["prefix", "no_lifespan"])
def test_a_server_that_is_never_right_is_told_nothing_of_a_special_case(check: str) -> None:
    pytest.importorskip("fastapi")
    with pytest.raises(Lost) as lost:
        JUDGES[check](bench(answer(1, status=503)))
    assert "prefix off" not in lost.value.diagnosis.message
    assert "Load without them" not in lost.value.diagnosis.message


def test_an_answer_of_another_request_is_told_apart() -> None:
    def exchange(told: dict[str, Any]) -> None:
        told["answers"][2], told["answers"][3] = told["answers"][3], told["answers"][2]

    pytest.importorskip("fastapi")
    with pytest.raises(
        Lost, match=r"has 2 rows instead of 1\. This is request 2, and it got the predictions for request 3"
    ) as lost:
        JUDGES["concurrent"](bench(exchange, "concurrent"))
    assert lost.value.diagnosis.kind == "race"


def test_without_fastapi_there_is_one_sentence_and_no_point(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(Unable, match=r"fastapi is not installed. Install it: pip install 'rankup\[serving\]'"):
        serving.answers(bench())


@pytest.mark.parametrize(
    ("body", "enough"),
    [
        ('{"detail": "there is no such file"}', True),
        ('{"ready": false, "errors": [{"why": "KeyError: sizes"}]}', True),
        ("the file is cut off", True),
        ('{"ready": false}', False),
        ('{"status": "not ready"}', False),
        ('{"detail": "Service Unavailable"}', False),
        ("", False),
        ("503", False),
        ("[" * 100_000, False),
    ],
)
def test_a_reason_says_more_than_the_status(body: str, enough: bool) -> None:
    assert reason(body) == enough


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("[[1, 2]]", "not a JSON object"),
        ('{"predictions": {"0": [1, 2]}}', "is an object instead of a list"),
        ('{"predictions": [1, 2]}', "holds a number instead of a list"),
        ('{"predictions": [[1, 2], [1, 2]]}', "2 rows instead of 1"),
        ('{"predictions": [[1]]}', "has 1 number instead of 2"),
        ('{"predictions": [[1, "2"]]}', "holds a string instead of a number"),
        ('{"predictions": [[1, true]]}', "holds a boolean instead of a number"),
        (f'{{"predictions": [[1, 1{"0" * 400}]]}}', "too large"),
    ],
)
def test_what_are_no_predictions_is_said(body: str, why: str) -> None:
    assert why in str(values(body, (1, 2)))


def test_the_expected_predictions_are_torchs() -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(3)
    model = net(rng, 4, 8, 6, 3)
    layers = []
    for wide, out in ((4, 8), (8, 6)):
        layers += [torch.nn.Linear(wide, out), torch.nn.BatchNorm1d(out), torch.nn.ReLU(), torch.nn.Dropout(0.1)]
    theirs = torch.nn.Sequential(*layers, torch.nn.Linear(6, 3)).double()
    theirs.load_state_dict({name: torch.tensor(value) for name, value in model.state.items()})
    rows = rng.normal(size=(5, 4))
    assert np.allclose(theirs.eval()(torch.tensor(rows)).detach().numpy(), model.predict(rows))


@pytest.mark.parametrize(
    ("way", "words"),
    [
        (lambda y: np.maximum(y, 0), "ReLU"),
        (lambda y: np.round(y, 2), "rounded"),
        (lambda y: 1 / (1 + np.exp(-y)), "sigmoid"),
        (lambda y: y[::-1], "reverse order"),
        (lambda y: y * np.nan, "not finite"),
        (lambda y: y + 0.003, "Compute in float32"),
        (lambda y: y + 7, ""),
    ],
)
def test_known_mistakes_have_a_sentence(way: Any, words: str) -> None:
    right = np.random.default_rng(1).normal(0, 2, (4, 3))
    found = problem(way(right), right)
    assert words in found
    assert bool(words) == bool(found)


def test_each_case_is_one_server() -> None:
    assert all(isinstance(case, Case) and case.by == "serve" and case.ranks == 1 for case in CASES)
