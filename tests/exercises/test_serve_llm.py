"""What serve_llm decides by: the model, the reference's schedule in numbers, and the reading of a record."""

from __future__ import annotations

import types
from dataclasses import replace
from typing import Any

import pytest

from grader.authoring import wrong
from grader.exercise import Draw
from grader.exercises.serve_llm import cases, reference
from grader.exercises.serve_llm.judging import follow
from grader.serving import Chunk
from grader.serving.model import Model, alone
from grader.serving.run import Event, serve
from grader.worlds.cases import Case

PROMPT = [3, 1, 4, 1, 5, 9, 2, 6, 5]


def engine() -> Any:
    module = types.ModuleType("reference")
    exec(compile(wrong.reference("serve_llm").source, "reference", "exec"), module.__dict__)
    return module.Engine


def drawn(group: str) -> list[Case]:
    return [case for case in cases(Draw(3)) if case.group == group]


def served(case: Case, make: Any = None) -> list[list[Any]]:
    return serve(make or engine(), case.expected.trace, case.arguments[0][1])


@pytest.mark.parametrize("cut", [1, 3, 4, 9])
def test_chunks_and_scattered_blocks_give_what_a_request_gets_alone(cut: int) -> None:
    model, table = Model(8, 4, seed=5), [6, 1, 3]
    for start in range(0, len(PROMPT), cut):
        logits = model.logits([Chunk(PROMPT[start : start + cut], start, table)])
    right, _ = alone([PROMPT], [1], 5)
    assert int(logits[0].argmax()) == right[0][0]


@pytest.mark.parametrize("wrong_table", [[6, 3, 1], [6, 6, 3], [0, 1, 3]])
def test_a_wrong_table_gives_other_logits(wrong_table: list[int]) -> None:
    model = Model(8, 4, seed=5)
    whole = model.logits([Chunk(PROMPT, 0, [6, 1, 3])])
    assert abs(model.logits([Chunk(PROMPT[-1:], len(PROMPT) - 1, wrong_table)]) - whole).max() > 1e-3


def test_the_reference_takes_as_long_as_its_schedule_in_numbers() -> None:
    for case in drawn("throughput"):
        run = follow(case.expected, served(case))
        assert not run.findings
        last = max(frame.end for frame in run.frames if frame.returned)
        first = next(frame.begin for frame in run.frames if frame.events)
        assert (last - first) / 2e6 == pytest.approx(reference.seconds(case.expected.trace, case.expected.right))


def test_a_record_of_other_times_is_none() -> None:
    case = drawn("together")[0]
    steps = served(case)
    steps[2][0] += 1
    run = follow(case.expected, steps)
    assert [finding.rule for finding in run.findings] == ["record"]


@pytest.mark.parametrize("nonsense", [None, [[0]], [[1, 2, 3, 4]], [[0, [], {}, []], "x"]])
def test_what_is_no_record_ends_its_reading(nonsense: Any) -> None:
    run = follow(drawn("twins")[0].expected, nonsense)
    assert run.findings[-1].fatal


def test_a_slot_that_holds_another_request_is_named() -> None:
    case = drawn("alone")[0]
    steps = served(case)
    late = next(step for step in steps if step[1] and step[1][0][0][1] > 1)
    late[1][0][0][2] = [(block + 1) % case.expected.trace.blocks for block in late[1][0][0][2]]
    finding = follow(case.expected, steps).findings[-1]
    assert finding.rule == "reads"
    assert "block" in finding.text
    assert "position 0" in finding.text


def test_a_cancelled_request_that_goes_on_is_named_though_another_has_the_same_tokens() -> None:
    module = types.ModuleType("wrong")
    exec(compile(wrong.find("serve_llm/cancels_waiting_ones_only").submission.source, "wrong", "exec"), module.__dict__)
    twins = drawn("twins")[0].expected  # r0 and r1 have equal prompts, so always equal tokens
    first, second, *later = twins.trace.events
    trace = replace(twins.trace, events=(first, second, Event("cancel", 0, after=(0, 2)), *later))
    finding = follow(replace(twins, trace=trace), serve(module.Engine, trace, 100)).findings[-1]
    assert "for request 'r0', which was cancelled" in finding.text
