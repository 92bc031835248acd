"""What is taken from a box, and what is not: answers that no node gives, pasts that are not alike, time without end."""

from __future__ import annotations

import json
from typing import Any

import pytest

from grader.lost import Lost
from grader.nodes import told
from grader.nodes.actors import Branch, Local
from grader.nodes.boxed import Allowance
from grader.nodes.clients import Ask
from grader.nodes.explorer import Explorer
from grader.nodes.life import Birth
from grader.nodes.node import Node
from grader.nodes.sim import cluster
from grader.nodes.states import Model
from grader.sandbox.client import NONSENSE, Moment


def nested(levels: int) -> str:
    return '{"a": ' + "[" * levels + "]" * levels + "}"


NO_STEP = {
    "nothing": None,
    "too short": [[], None],
    "effects that are none": [5, None, {}],
    "an unknown effect": [[["explode", "n1", 3]], None, {}],
    "a line that is a text": [[["send", "n2", "{}", "3"]], None, {}],
    "a message that is no JSON": [[["send", "n2", "{", 3]], None, {}],
    "a message that is a list": [[["send", "n2", "[]", 3]], None, {}],
    "a number that JSON has not": [[["send", "n2", '{"a": NaN}', 3]], None, {}],
    "a message nested too deep": [[["send", "n2", nested(told.DEEPEST), 3]], None, {}],
    "a message nested beyond reading": [[["send", "n2", nested(100_000), 3]], None, {}],
    "a timer in the past": [[["timer", "t", -1.0, 3]], None, {}],
    "a timer at no time": [[["timer", "t", float("nan"), 3]], None, {}],
    "a timer that is true": [[["timer", "t", "1", 3]], None, {}],
    "a write of a number": [[["write", "k", 5, 3]], None, {}],
    "a raise without a type": [[], {"text": "x", "line": 1}, {}],
    "a state that nobody asked for": [[], None, {"other": 1}],
    "a state that is a list": [[], None, {"role": [1]}],
}


@pytest.mark.parametrize("step", NO_STEP.values(), ids=NO_STEP.keys())
def test_what_can_be_no_step_is_refused(step: Any) -> None:
    with pytest.raises(NONSENSE):
        told.step(step, ("role",))


def test_a_step_is_taken_as_it_is() -> None:
    effects = [
        ["send", "n2", nested(told.DEEPEST - 1), 3],
        ["write", "k", None, None],
        ["timer", "t", 0, 4],
        ["cancel", "t", 5],
    ]
    found = told.step([effects, {"type": "KeyError", "text": "x\x1b[2J", "line": 7}, {"role": "leader"}], ("role",))
    assert found.effects == effects
    assert found.raised == {"type": "KeyError", "text": "x\ufffd[2J", "line": 7}
    assert found.state == {"role": "leader"}


@pytest.mark.parametrize("branch", [None, {"past": "1"}, {"past": 1, "state": 2, "step": [[], None, {}]}, {"past": 1}])
def test_what_can_be_no_branch_is_refused(branch: Any) -> None:
    with pytest.raises(NONSENSE):
        told.branch(branch, ())


def test_a_grading_may_not_stand_still_for_long_all_together() -> None:
    allowance = Allowance(own_seconds=100, still_seconds=2)
    requests = [(0.4, 0.4), (3, 0), (1, 1), (0.9, 0.9), (0.6, 0.6)]
    assert [bool(allowance.take(computed, still)) for computed, still in requests] == [False, False, False, False, True]
    assert "sleep" in allowance.take(1, 1)


def test_who_waits_for_a_processor_does_not_stand_still() -> None:
    began, ended = Moment(at=10.0, cpu=1.0, delayed=2.0), Moment(at=14.0, cpu=1.5, delayed=5.0)
    assert began.stood_still(ended) == 0.5


def test_a_grading_may_not_wait_for_ever_however_small_the_pieces() -> None:
    allowance = Allowance(own_seconds=10)
    assert [allowance.take(0.4, 0) for _ in range(24)] == [""] * 24
    assert "too long" in [allowance.take(0.4, 0) for _ in range(3)][-1]


class Counting(Node):
    def on_start(self) -> None:
        self.count = 0

    def on_message(self, src: str, body: dict[str, Any]) -> None:
        self.count += 1
        self.reply(body, {"type": "x", "value": self.count})


class Lying(Local):
    """Says that every past leads to the same state."""

    def branch(self, birth: Birth, past: int, what: list[Any], now: float) -> Branch:
        found = super().branch(birth, past, what, now)
        return Branch(found.step, found.past, "the same")


def test_who_calls_all_states_one_is_found_out() -> None:
    asks = {f"c{number}": (Ask("n1", {"type": "x"}),) * 6 for number in (1, 2)}
    model = Model(cluster(1, "Counting"), asks)
    assert Explorer(Local({"Counting": Counting}), model, lambda view: None).search(500).problem is None
    with pytest.raises(Lost) as caught:
        Explorer(Lying({"Counting": Counting}), model, lambda view: None).search(500)
    assert caught.value.diagnosis.kind == "nondeterministic"
    assert json.dumps(caught.value.diagnosis.message).count("n1") == 1
