"""The models that clocks and replicated types are compared with keep the laws themselves; answers are told apart."""

from __future__ import annotations

from typing import Any

import pytest

from grader.exercise import Draw
from grader.exercises.common import replicas
from grader.exercises.gossip_crdt import crdts
from grader.exercises.vector_clocks import clocks


@pytest.mark.parametrize("seed", range(5))
def test_models_keep_the_laws(seed: int) -> None:
    scripts = [script for case in crdts.cases(Draw(seed)) for script in case.expected]
    related = [(script, ask) for script in scripts for ask in script.asks if ask.same_as is not None and ask.expected]
    assert related
    for script, ask in related:
        earlier = script.asks[ask.same_as or 0].expected
        assert earlier in (None, ask.expected), (script.steps, ask)


@pytest.mark.parametrize("seed", range(5))
def test_merged_clocks_are_what_ticks_alone_would_make(seed: int) -> None:
    merge = next(case for case in clocks.cases(Draw(seed)) if case.group == "merge")
    assert {ask.expected for script in merge.expected for ask in script.asks} == {"equal"}


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [({"is": 2}, {"is": 2.0}, True), ({"is": True}, {"is": 1}, False), ({"is": "7"}, {"is": 7}, False),
     ({"elements": [{"is": 1}, {"is": "x"}]}, {"elements": [{"is": "x"}, {"is": 1}]}, True),
     ({"elements": [{"is": 1}]}, {"elements": [{"is": 1}, {"is": 1}]}, False), (None, {"is": None}, False)],
)  # fmt: skip
def test_answers_are_compared_by_what_they_are(one: Any, other: Any, equal: bool) -> None:
    assert (replicas.normal(one) == replicas.normal(other)) is equal
