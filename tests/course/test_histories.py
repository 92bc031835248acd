"""Histories of a chapter: what a line means, and what is made of it."""

from __future__ import annotations

from typing import Any

import pytest

from courselib.histories import contradiction, history, seen
from courselib.judged import judged
from grader.nodes.histories.history import NEVER
from grader.nodes.states import View

OLDER = ("A write 1 0-10", "B read 1 2-4", "C read - 5-7")


def test_a_line_is_an_operation() -> None:
    a, b, c = history("A write x=1 0-2.5", "B read x=red 1-3", "A write x=2 4-")
    assert (a.process, a.f, a.key, a.value, a.start, a.end) == ("A", "write", "x", 1, 0.0, 2.5)
    assert (b.result, b.status) == ("red", "ok")
    assert (c.status, c.end) == ("info", NEVER)


def test_what_ends_as_another_begins_overlaps() -> None:
    first, second = history("A write 1 0-2", "B read - 2-3")
    assert not first.before(second)


@pytest.mark.parametrize("line", ["A write 1", "A cas 1 0-1", "A read 1 0 1", ""])
def test_other_lines_are_refused(line: str) -> None:
    with pytest.raises(ValueError, match="is not"):
        history(line)


@pytest.mark.parametrize(
    ("lines", "linearizable", "sequential", "serializable"),
    [
        pytest.param(("A write 1 0-10", "B read 1 2-4", "C read 1 5-7"), True, True, True, id="new, new"),
        pytest.param(OLDER, False, True, True, id="new, old, two readers"),
        pytest.param(("A write 1 0-1", "A read - 2-3"), False, False, True, id="not its own write"),
        pytest.param(("A write 1 0-1", "B read 2 2-3"), False, False, False, id="never written"),
    ],
)
def test_the_words_mean_what_they_say(
    lines: tuple[str, ...], linearizable: bool, sequential: bool, serializable: bool
) -> None:
    found = [judged(history(*lines), word).valid for word in ("linearizable", "sequential", "serializable")]
    assert found == [linearizable, sequential, serializable]


def test_another_word_is_refused() -> None:
    with pytest.raises(KeyError, match="causal"):
        judged(history("A write 1 0-1"), "causal")


def test_a_judged_history_tells_and_draws() -> None:
    found = judged(history(*OLDER), title="Two readers")
    assert found.verdict == "not linearizable"
    assert "by C at 5-7 s returned null" in found.reason
    assert "not linearizable" in found._repr_html_()
    fine = judged(history(*OLDER), "sequential")
    assert fine.order == "C read -, A write 1, B read 1"


@pytest.mark.parametrize(("last", "verdict"), [("A read - 2-3", "serializable"), ("A read 7 2-3", "not serializable")])
def test_any_order_will_do_for_transactions(last: str, verdict: str) -> None:
    found = judged(history("A write 1 0-1", last), "serializable")
    assert found.verdict == verdict
    assert {one.process for one in found.checked.order} == {"A"}
    assert verdict.capitalize() in found._repr_html_()


def test_an_explored_schedule_is_a_history() -> None:
    asks: dict[str, list[tuple[Any, ...]]] = {
        "c1": [("n1", {"type": "write", "value": 1})],
        "c2": [("n2", {"type": "read"})] * 2,
    }
    entries: list[tuple[str, int, Any]] = [
        ("c1", 0, None), ("c2", 0, None), ("c2", 0, {"type": "read_ok", "value": 1}), ("c2", -1, {"type": "read_ok"}),
        ("c2", 1, None), ("c2", 1, {"type": "read_ok", "value": None}),
    ]  # fmt: skip
    judge = contradiction("New, then old", asks)
    assert judge(View((), {})) is None
    assert judge(View(tuple(entries[:4]), {})) is None
    found = judge(View(tuple(entries), {}))
    assert found
    assert found.verdict == "not linearizable"
    assert [one.f for one in seen(asks, View(tuple(entries), {}))] == ["write", "read", "read"]
