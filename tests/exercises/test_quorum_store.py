"""What the checks of quorum_store say: a stale history is found, and its usual causes are named."""

from __future__ import annotations

import pytest

from grader.authoring import wrong
from grader.exercises.quorum_store import judging, plans
from grader.grading import grade, only
from grader.nodes.states import View
from grader.ranks.engines import Engines
from grader.registry import find
from grader.trace.story import Sent

EXERCISE = find("quorum_store")
ASKS = {"c1": (plans.write("n1", 1),), "c2": (plans.read("n2"), plans.read("n3"))}
WRITTEN, READ = {"type": "write_ok"}, {"type": "read_ok"}


@pytest.mark.parametrize(
    ("history", "valid"),
    [
        ((), True),
        ((("c1", 0, None), ("c1", 0, WRITTEN), ("c2", 0, None), ("c2", 0, {**READ, "value": 1})), True),
        ((("c1", 0, None), ("c1", 0, WRITTEN), ("c2", 0, None), ("c2", 0, {**READ, "value": None})), False),
        ((("c1", 0, None), ("c2", 0, None), ("c2", 0, {**READ, "value": None}), ("c1", 0, WRITTEN)), True),
        ((("c1", 0, None), ("c1", 0, {"type": "error", "code": 11}), ("c2", 0, None),
          ("c2", 0, {**READ, "value": 1})), False),
        ((("c1", 0, None), ("c1", 0, {"type": "error", "code": 13}), ("c2", 0, None),
          ("c2", 0, {**READ, "value": 1})), True),
        ((("c1", 0, None), ("c2", 0, None), ("c2", 0, {**READ, "value": 1}), ("c2", -1, {**READ, "value": 9}),
          ("c2", 1, None), ("c2", 1, {**READ, "value": None})), False),
    ],
    ids=["nothing", "seen", "stale", "overlapping", "failed, and seen", "unknown, and seen", "back in time"],
)  # fmt: skip
def test_histories_of_the_explorer_are_judged(history: tuple[tuple[str, int, object], ...], valid: bool) -> None:
    assert (judging.explored(View(history, {}), ASKS) is None) == valid


def test_a_sentence_about_steps_has_no_seconds() -> None:
    told = judging.in_steps(
        "The read by c2 at 5-9 s returned null, but the write by c1 from 1 s on, had ended at 4 s, before."
    )
    assert told == (
        "The read by c2 in steps 5-9 returned null, but the write by c1 from step 1 on, had ended at step 4, before."
    )


@pytest.mark.parametrize(
    ("mutant", "check", "named"),
    [
        ("no_write_back", "network", "without a second round trip. A read must write its value back"),
        ("write_back_not_awaited", "network", "without a second round trip. A read must write its value back"),
        ("late_replies_counted", "network", "Give every round of requests a number of its own"),
        ("counts_itself_twice", "network", "With itself that is 1 of read_quorum = 2"),
        ("copies_in_memory", "crashes", "only the disk survives a crash"),
        ("quorums_exchanged", "exact", "Check that write_quorum and read_quorum are not exchanged."),
    ],
)
def test_usual_mistakes_are_named(mutant: str, check: str, named: str, engines: Engines) -> None:
    handed_in = wrong.find(f"quorum_store/{mutant}").submission
    found = grade(only(EXERCISE, check), handed_in, engines, 1).checks[0]
    assert found.diagnosis is not None
    assert named in found.diagnosis.message
    assert found.diagnosis.line is not None
    assert found.diagram


def test_where_quorums_do_not_meet_the_stale_read_is_shown(engines: Engines) -> None:
    shown = grade(only(EXERCISE, "exact"), wrong.reference("quorum_store"), engines, 1).checks[0]
    assert shown.status == "pass"
    assert "a stale read, as expected" in (shown.diagram or "")


def test_what_may_be_an_answer_is_no_sign_that_a_node_went_on() -> None:
    """n1 asks n2 and n3, n3 asks n1 meanwhile, and n1 answers it before n2's answer is there: no second round yet."""
    told = {("n2", "get"): 1.0, ("n3", "get"): 1.0, ("n3", "answer"): 1.04, ("n2", "put"): 1.06, ("n3", "put"): 1.06}
    heard = [Sent(1, "n3", "n1", {}, 1.02, arrived=1.04), Sent(2, "n2", "n1", {}, 1.03, arrived=1.06)]
    assert judging._rounds(told, heard) == [1.0, 1.04, 1.06]
    assert judging._rounds(told, heard, surely=True) == [1.0, 1.06]
