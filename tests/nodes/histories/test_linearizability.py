"""The checker against one that tries all orders, against histories that are right because they were run, and what it
says of those that are wrong."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

import brute_force
import pytest
import real_runs
from hypothesis import given
from hypothesis import strategies as st
from often import by_day

from grader.nodes.histories import checker, models
from grader.nodes.histories.checker import Checked, linearizable
from grader.nodes.histories.history import Operation, pair
from grader.submission import BadRequest

NAMES = sorted(models.MODELS)


def explains(order: Sequence[Operation], operations: Sequence[Operation], model: models.Model) -> None:
    """That an order holds each operation that happened once, keeps real time, and gives every outcome."""
    assert len(set(order)) == len(order)
    missing = set(operations) - set(order)
    assert all(one.status in ("fail", "info") for one in missing)
    assert not any(later.before(sooner) for at, sooner in enumerate(order) for later in order[at + 1 :])
    states: dict[Any, Any] = {}
    for one in order:
        fits, states[one.key] = model.step(states.get(one.key, model.initial), one)
        assert fits, f"{one} does not fit in {order}"


def agree(operations: list[Operation], name: str) -> bool:
    """Check with both, and what else must hold of the answer."""
    model = models.MODELS[name]
    found, right = linearizable(operations, model), brute_force.linearizable(operations, model)
    assert found.valid is right, operations
    if right:
        explains(found.order, operations, model)
        return True
    assert found.stuck is not None
    assert found.pair[-1] is found.stuck
    assert found.reason
    assert found.reason.endswith(".")
    before = [one for one in operations if one.returned < found.stuck.returned]
    assert set(before) - {one for one in before if one.status == "fail"} <= set(found.order)
    explains(found.order, [*before, *found.order], model)
    return False


def compare(count: int, seed: int) -> int:
    valid = 0
    for number in range(count):
        draw = random.Random(seed * 1_000_000 + number)
        name = draw.choice(NAMES)
        valid += agree(brute_force.history(draw, name, draw.choice((4, 6, 7))), name)
    return valid


def test_it_agrees_with_trying_all_orders_on_5000_random_histories() -> None:
    assert 1500 < compare(5000, seed=1) < 3500, "the histories should be right and wrong about as often"


def compare_nearly_right(count: int, seed: int) -> int:
    """Longer ones, which a right store gave, with one read changed; many cas and unknown outcomes among them."""
    valid = 0
    for number in range(count):
        draw = random.Random(seed * 1_000_000 + number)
        name = draw.choice(("register", "cas-register", "cas-register", "kv", "kv"))
        values, lost = draw.choice((0, 2, 3, 4)), draw.choice((0, 0.1, 0.4))
        events = real_runs.events(draw, name, draw.choice((4, 8, 12)), draw.choice((2, 4, 6)), values=values, lost=lost)
        valid += agree(pair(real_runs.mutated(draw, events)), name)
    return valid


def test_it_agrees_with_trying_all_orders_on_2500_that_are_nearly_right() -> None:
    assert 1500 < compare_nearly_right(2500, seed=1) < 2300


def test_what_may_have_happened_is_part_of_what_the_search_remembers() -> None:
    """One history in some ten thousand is judged wrong where it is not."""
    draw = random.Random(615_658)
    count, processes, lost = draw.choice([8, 10, 12]), draw.choice([2, 4, 6]), draw.choice([0, 0.3, 0.6])
    events = real_runs.events(draw, "cas-register", count, processes, values=2, lost=lost)
    assert draw.random() < 0.6  # as the history was found: with one read changed
    assert agree(pair(real_runs.mutated(draw, events)), "cas-register")


@pytest.mark.parametrize("seed", by_day(range(2, 6)))
def test_it_agrees_with_trying_all_orders_on_many_random_histories(seed: int) -> None:
    compare(20_000, seed)
    compare_nearly_right(10_000, seed)


@st.composite
def runs(draw: st.DrawFn, most: int) -> tuple[str, random.Random, list[dict[str, Any]]]:
    """A model, chance, and a history of a right store."""
    chance = random.Random(draw(st.integers(0, 2**32)))
    name = draw(st.sampled_from(NAMES))
    count, processes = draw(st.integers(1, most)), draw(st.integers(1, 6))
    lost, values = draw(st.sampled_from((0.0, 0.1, 0.4))), draw(st.sampled_from((0, 2, 4)))
    return name, chance, real_runs.events(chance, name, count, processes, values=values, lost=lost)


@given(runs(60))
def test_what_a_right_store_gives_is_linearizable(run: tuple[str, random.Random, list[dict[str, Any]]]) -> None:
    name, _, events = run
    operations = pair(events)
    found = linearizable(operations, name)
    assert found.valid is True
    explains(found.order, operations, models.MODELS[name])


@given(runs(10))
def test_with_one_read_changed_it_agrees_with_trying_all_orders(
    run: tuple[str, random.Random, list[dict[str, Any]]],
) -> None:
    name, chance, events = run
    agree(pair(real_runs.mutated(chance, events)), name)


def test_most_reads_that_are_changed_are_found_out() -> None:
    caught = 0
    for seed in range(100):
        chance = random.Random(seed)
        events = real_runs.events(chance, "register", 40, 3, values=0, lost=0.0)
        caught += linearizable(pair(real_runs.mutated(chance, events)), "register").valid is False
    assert caught > 70


@given(runs(20))
def test_a_beginning_of_a_linearizable_history_is_linearizable(
    run: tuple[str, random.Random, list[dict[str, Any]]],
) -> None:
    name, chance, events = run
    assert linearizable(pair(events[: chance.randint(1, len(events))]), name).valid is True


@given(runs(30))
def test_keys_do_not_touch_each_other(run: tuple[str, random.Random, list[dict[str, Any]]]) -> None:
    name, chance, events = run
    other = [{**event, "key": "y", "process": event["process"] + 1000} for event in events]
    wrong = real_runs.mutated(chance, other)
    alone, both = linearizable(pair(wrong), name), linearizable(pair([*events, *wrong]), name)
    assert both.valid is alone.valid
    if both.valid:
        explains(both.order, pair([*events, *wrong]), models.MODELS[name])


def story(*steps: str) -> list[Operation]:
    """Steps "c1 w 1 10-20", "c2 r 1 30-40", "c3 cas 1 2 50-", "c3 cas 1 2 50-60 !", "c1 + a 1-2": what, from when to
    when; "!" where it was refused, "x" where it failed."""
    events: list[dict[str, Any]] = []
    for step in steps:
        process, f, *arguments = step.split()
        ending = arguments.pop() if arguments[-1] in ("!", "x") else "ok"
        start, _, end = arguments.pop().partition("-")
        values = [one if f == "+" else json.loads(one) for one in arguments]
        name = {"w": "write", "r": "read", "cas": "cas", "+": "append"}[f]
        value = values if f == "cas" else values[0]
        event = {"process": process, "f": name, "key": "x", "value": value}
        events.append({**event, "type": "invoke", "time": int(start)})
        if end:
            error = {"error": 22} if ending == "!" else {}
            events.append({**event, "type": "ok" if ending == "ok" else "fail", "time": int(end), **error})
    return pair(events)


WRONG = {
    "a stale read": (
        ["c1 w 1 0-10", "c1 w 2 20-30", "c2 r 1 40-50"],
        "register",
        "The read of x by c2 at 40-50 s returned 1, but the write of 2 by c1 had ended at 30 s, before that read "
        "began, and nothing wrote 1 afterwards.",
    ),
    "the beginning, after a write": (
        ["c1 w 1 0-10", "c2 r null 20-30"],
        "register",
        "The read of x by c2 at 20-30 s returned null, but the write of 1 by c1 had ended at 10 s, before that read "
        "began, and nothing wrote null afterwards.",
    ),
    "never written": (
        ["c1 w 1 0-10", "c2 r 7 20-30"],
        "register",
        "The read of x by c2 at 20-30 s returned 7, which was never written.",
    ),
    "written by one that failed": (
        ["c1 w 1 0-10", "c1 w 2 20-30 x", "c2 r 2 40-50"],
        "register",
        "The read of x by c2 at 40-50 s returned 2, but the write of 2 by c1 failed, so it never happened.",
    ),
    "read before it was written": (
        ["c2 r 1 0-10", "c1 w 1 20-30"],
        "register",
        "The read of x by c2 at 0-10 s returned 1, but the only write of 1, by c1, began at 20 s, after the read had "
        "ended.",
    ),
    "two reads while a write is under way": (
        ["c1 w 1 0-10", "c1 w 2 20-90", "c2 r 2 30-40", "c3 r 1 50-60"],
        "register",
        "The read of x by c3 at 50-60 s returned 1, but the read by c2 at 30-40 s had already returned 2. The value 2 "
        "was written after 1, so the register went back in time.",
    ),
    "there and back": (
        ["c1 w 1 0-90", "c4 w 2 0-90", "c2 r 1 10-20", "c2 r 2 30-40", "c3 r 1 50-60"],
        "register",
        "The read of x by c3 at 50-60 s returned 1, but the read by c2 at 30-40 s had already returned 2. Before that "
        "the read by c2 at 10-20 s had returned 1. The value 1 was written only once, so it cannot come back.",
    ),
    "two cas of one value": (
        ["c1 w 1 0-10", "c2 cas 1 2 20-30", "c3 cas 1 3 20-40"],
        "cas-register",
        "No order of the operations allows this|Both replaced 1",
    ),
    "two cas one after the other": (
        ["c1 w 1 0-10", "c2 cas 1 2 20-30", "c3 cas 1 3 35-40"],
        "cas-register",
        "The cas of x by c3 at 35-40 s from 1 to 3 succeeded, but the cas from 1 to 2 by c2 had ended at 30 s, before "
        "that cas began, and nothing wrote 1 afterwards.",
    ),
    "refused for no reason": (
        ["c1 w 1 0-10", "c2 cas 1 2 20-30 !"],
        "cas-register",
        "The cas of x by c2 at 20-30 s from 1 to 2 was refused, as if the value were not 1, but the value was 1 all "
        "that time. This follows from the write of 1 by c1 at 0-10 s.",
    ),
    "an append that is lost": (
        ["c1 + a 0-10", "c2 + b 0-12", 'c2 r "a" 20-30'],
        "kv",
        'The read of x by c2 at 20-30 s returned "a", but the append of "b" by c2 had ended at 12 s, before that read '
        "began, and its text is missing.",
    ),
    "a text that nobody made": (
        ["c1 + a 0-10", 'c2 r "aba" 20-30'],
        "kv",
        'The read of x by c2 at 20-30 s returned "aba", which no order of the writes and appends can give.',
    ),
    "a text that was otherwise": (
        ["c1 + a 0-90", "c2 + b 0-90", 'c3 r "ab" 20-30', 'c3 r "ba" 40-50'],
        "kv",
        'The read of x by c3 at 40-50 s returned "ba", but the read by c3 at 20-30 s had returned "ab". An append can '
        "only make this text longer.",
    ),
}


@pytest.mark.parametrize(("steps", "model", "words"), WRONG.values(), ids=WRONG.keys())
def test_the_sentence_for_what_is_wrong(steps: list[str], model: str, words: str) -> None:
    found = linearizable(story(*steps), model)
    assert found.valid is False
    assert found.reason is not None
    assert any(part in found.reason for part in words.split("|")), found.reason


RIGHT = {
    "null is the beginning": (["c1 r null 0-10", "c2 w 1 20-30"], "register"),
    "one that failed did not happen": (["c1 w 1 0-10 x", "c1 r null 20-30"], "register"),
    "one of unknown outcome may happen late": (["c1 w 1 0-", "c2 r null 20-30", "c2 r 1 40-50"], "register"),
    "or never": (["c1 w 1 0-", "c2 r null 20-30"], "register"),
    "a refused cas saw another value": (["c1 w 1 0-10", "c2 cas 2 3 20-30 !", "c2 r 1 40-50"], "cas-register"),
    "a cas of unknown outcome": (["c1 w 1 0-10", "c2 cas 1 2 20-", "c1 r 1 30-40", "c1 r 2 50-60"], "cas-register"),
    "nothing and the empty text are the same": (['c1 r "" 0-10', "c1 r null 20-30", "c1 + a 40-50"], "kv"),
    "an append to nothing": (["c1 + a 0-10", 'c1 r "a" 20-30'], "kv"),
    "a write of nothing": (['c1 w "" 0-10', "c1 r null 20-30", 'c1 cas null "b" 40-50', 'c1 r "b" 60-70'], "kv"),
    "appends at the same time": (["c1 + a 0-50", "c2 + b 0-50", 'c3 r "ba" 10-20'], "kv"),
    "values of any kind": (['c1 w {"a":[1,true]} 0-10', 'c2 r {"a":[1.0,true]} 20-30'], "register"),
}


@pytest.mark.parametrize(("steps", "model"), RIGHT.values(), ids=RIGHT.keys())
def test_what_is_linearizable(steps: list[str], model: str) -> None:
    assert linearizable(story(*steps), model).valid is True


def test_one_is_not_true() -> None:
    assert linearizable(story("c1 w 1 0-10", "c2 r true 20-30"), "register").valid is False


NOT_OF_THE_MODEL = {
    "a register has no cas": (["c1 cas 1 2 0-10"], "register", "Use --model cas-register or kv"),
    "a register is not appended to": (["c1 + a 0-10"], "register", "Use --model kv"),
    "a number is not appended to": (["c1 w 1 0-10", "c1 + a 20-30"], "kv", "so it must hold text"),
}


@pytest.mark.parametrize(("steps", "model", "words"), NOT_OF_THE_MODEL.values(), ids=NOT_OF_THE_MODEL.keys())
def test_an_operation_that_the_model_does_not_have_is_refused(steps: list[str], model: str, words: str) -> None:
    with pytest.raises(BadRequest, match=words):
        linearizable(story(*steps), model)


def test_kv_needs_keys() -> None:
    events = [{"process": 1, "type": "invoke", "f": "read", "time": 1}]
    with pytest.raises(BadRequest, match="has no key"):
        linearizable(pair(events), "kv")


def test_a_model_that_there_is_not_is_refused() -> None:
    with pytest.raises(BadRequest, match="no model is called 'queue'"):
        linearizable([], "queue")


def broken(count: int = 60) -> list[Operation]:
    return pair(real_runs.mutated(random.Random(4), real_runs.events(random.Random(5), "register", count, 5, values=0)))


def test_a_budget_that_is_spent_gives_unknown_and_never_right() -> None:
    right = pair(real_runs.events(random.Random(5), "cas-register", 60, 5))
    enough = linearizable(right, "cas-register").steps
    for budget in range(0, enough, 7):
        found = linearizable(right, "cas-register", budget=budget)
        assert found.valid == "unknown"
        assert f"No answer within {budget:,} steps" in (found.reason or "")
    assert linearizable(right, "cas-register", budget=enough).valid is True


def test_a_wrong_key_decides_also_where_another_one_took_too_long() -> None:
    hard = real_runs.events(random.Random(5), "cas-register", 60, 5)
    easy = [
        {"process": "c", "type": type_, "f": "read", "key": "y", "value": 1, "time": 99} for type_ in ("invoke", "ok")
    ]
    assert linearizable(pair([*hard, *easy]), "cas-register", budget=20).valid is False


def test_the_same_history_gives_the_same_answer() -> None:
    assert checker.linearizable(broken(), "register") == checker.linearizable(broken(), "register")


def test_without_repeated_values_and_cas_the_search_never_goes_back() -> None:
    """10,000 operations of 30 processes, right and wrong: exact counts of steps, no times."""
    events = real_runs.events(random.Random(1), "register", 10_000, 30, values=0, lost=0.02)
    found = linearizable(pair(events), "register")
    assert (found.valid, found.steps) == (True, len(found.order))
    wrong: Checked = linearizable(pair(real_runs.mutated(random.Random(2), events)), "register")
    assert wrong.valid is False
    assert wrong.steps <= 10_000
