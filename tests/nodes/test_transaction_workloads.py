"""txn-list-append, txn-rw-register and kafka without nodes: what is drawn, what an answer must be, what is judged."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

from grader.nodes.histories.transactions import LEVELS, reading
from grader.nodes.protocol import Malformed
from grader.nodes.workloads import kafka, transactions
from grader.nodes.workloads.mix import Mix
from grader.nodes.workloads.registry import WORKLOADS
from grader.nodes.workloads.workload import Event, Op, calls

NODES = ("n1", "n2")


def events(*told: tuple[Any, ...]) -> list[Event]:
    """Requests one after the other: (node, f, key, asked, type, value), "f final" for a read after the faults."""
    found: list[Event] = []
    for number, (node, f, key, asked, type_, value) in enumerate(told):
        name, _, final = f.partition(" ")
        begun = {"process": number, "type": "invoke", "f": name, "key": key, "value": asked, "node": node}
        begun["time"] = number * 20_000_000
        for event in (begun, {**begun, "type": type_, "value": value, "time": begun["time"] + 10_000_000}):
            found.append({**event, "final": True} if final else event)
    return found


def txn(node: str, *ops: list[Any], type_: str = "ok") -> tuple[Any, ...]:
    asked = [[f, key, None if f == "r" else value] for f, key, value in ops]
    return node, "txn", None, asked, type_, list(ops) if type_ == "ok" else asked


@pytest.mark.parametrize("write", ["append", "w"])
def test_no_value_is_written_twice_and_keys_retire(write: str) -> None:
    from grader.nodes.workloads.mix import transactions as drawn

    mix = Mix(keys=3, longest=5, writes=4)
    found = list(itertools.islice(drawn(random.Random(1), write, mix), 500))
    written = [(key, value) for ops in found for f, key, value in ops if f == write]
    assert len(set(written)) == len(written) > 500
    assert {f for ops in found for f, _, _ in ops} == {"r", write}
    assert {len(ops) for ops in found} == {1, 2, 3, 4, 5}
    assert max(value for _, value in written) == 4
    seen = {key for ops in found for _, key, _ in ops}
    assert max(seen) > 50, "keys that are full make room for new ones"


RIGHT_ANSWERS = {
    "null": ("txn-list-append", [["r", 1, None]], [["r", 1, None]]),
    "a list": ("txn-list-append", [["r", 1, None], ["append", 1, 2]], [["r", 1, [1]], ["append", 1, 2]]),
    "a register": ("txn-rw-register", [["r", 1, None], ["w", 1, 2]], [["r", 1, 5], ["w", 1, 2]]),
    "no operations": ("txn-list-append", [], []),
}
WRONG_ANSWERS = {
    "too few": ("txn-list-append", [["r", 1, None], ["append", 1, 2]], [["r", 1, [1]]], "of 2 operations with 1"),
    "another order": (
        "txn-list-append",
        [["r", 1, None], ["append", 1, 2]],
        [["append", 1, 2], ["r", 1, [1]]],
        'answered the operation `["r", 1, null]` with `["append", 1, 2]`',
    ),
    "another value": ("txn-rw-register", [["w", 1, 2]], [["w", 1, 3]], "fill in only what the reads saw"),
    "another key": ("txn-rw-register", [["r", 1, None]], [["r", "1", 2]], "fill in only what the reads saw"),
    "no operation": ("txn-rw-register", [["r", 1, None]], [7], "fill in only what the reads saw"),
    "a list that is none": ("txn-list-append", [["r", 1, None]], [["r", 1, 3]], "A list is an array of the integers"),
    "a list of others": ("txn-list-append", [["r", 1, None]], [["r", 1, [{}]]], "A list is an array of the integers"),
    "a register of lists": ("txn-rw-register", [["r", 1, None]], [["r", 1, [3]]], "A register holds one of the"),
    "no list": ("txn-list-append", [["r", 1, None]], "x", "whose 'txn' is 'x', not the list"),
}


@pytest.mark.parametrize(("workload", "asked", "answered"), RIGHT_ANSWERS.values(), ids=RIGHT_ANSWERS)
def test_answers_that_are_right(workload: str, asked: Any, answered: Any) -> None:
    each = WORKLOADS[workload]
    assert each.request(Op("txn", asked)) == {"type": "txn", "txn": asked}
    assert each.answer(Op("txn", asked), {"type": "txn_ok", "txn": answered}) == answered


@pytest.mark.parametrize(("workload", "asked", "answered", "words"), WRONG_ANSWERS.values(), ids=WRONG_ANSWERS)
def test_answers_that_are_none(workload: str, asked: Any, answered: Any, words: str) -> None:
    with pytest.raises(Malformed, match="answered") as raised:
        WORKLOADS[workload].answer(Op("txn", asked), {"type": "txn_ok", "txn": answered})
    assert words in str(raised.value)


SKEW = events(
    txn("n1", ["r", 1, []], ["append", 2, 1]),
    txn("n2", ["r", 2, []], ["append", 1, 1]),
    txn("n1", ["r", 1, [1]], ["r", 2, [1]]),
)


def test_the_level_decides() -> None:
    for level, right in {"read-committed": True, "snapshot-isolation": True, "serializable": False}.items():
        judged = transactions.workload("txn-list-append", level).judge(SKEW, NODES)
        assert judged.valid is right, level
        assert judged.figures["isolation"] == level
    judged = transactions.workload("txn-list-append", "serializable").judge(SKEW, NODES)
    assert judged.reason.startswith("the history is not serializable: it shows G2-item (")
    assert judged.figures["anomalies"].keys() == {"G2-item"}
    drawn = transactions.workload("txn-list-append", "serializable").picture
    assert drawn is not None
    assert drawn(SKEW, ()).startswith("<svg")


def test_real_time_counts_only_where_the_level_says_so() -> None:
    stale = events(txn("n1", ["append", 1, 1]), txn("n2", ["r", 1, []]), txn("n1", ["r", 1, [1]]))
    assert transactions.workload("txn-list-append", "serializable").judge(stale, NODES).valid is True
    judged = WORKLOADS["txn-list-append"].judge(stale, NODES)
    assert judged.valid is False
    assert "real time" in judged.reason


def test_a_refused_transaction_did_not_happen_and_an_unknown_one_may_have() -> None:
    append, read = ["append", 1, 1], txn("n1", ["r", 1, [1]])
    assert WORKLOADS["txn-list-append"].judge(events(txn("n1", append, type_="info"), read), NODES).valid is True
    judged = WORKLOADS["txn-list-append"].judge(events(txn("n1", append, type_="fail"), read), NODES)
    assert judged.valid is False
    assert "G1a" in judged.reason


def test_nothing_committed_is_unknown() -> None:
    judged = WORKLOADS["txn-rw-register"].judge(events(txn("n1", ["w", 1, 1], type_="fail")), NODES)
    assert (judged.valid, judged.reason) == ("unknown", "not one transaction was answered with txn_ok")


def test_transactions_have_the_names_that_history_check_gives_them() -> None:
    named = [{"index": at, **event} for at, event in enumerate(SKEW)]
    assert transactions.found(calls(named), "txn-list-append") == reading.pair(named)


def test_every_level_can_be_asked_for() -> None:
    for level in LEVELS:
        assert transactions.workload("txn-rw-register", level).name == "txn-rw-register"


# ---- kafka


def sends(node: str, key: str, message: int, offset: int) -> tuple[Any, ...]:
    return node, "send", key, message, "ok", [offset, message]


def polls(node: str, asked: dict[str, int], got: dict[str, Any], f: str = "poll") -> tuple[Any, ...]:
    return node, f, None, asked, "ok", got


def finals(*got: dict[str, Any]) -> list[tuple[Any, ...]]:
    return [polls(node, {"k": 0}, each, "poll final") for node, each in zip(NODES, got, strict=False)]


ONE, BOTH = [[0, 1]], [[0, 1], [1, 2]]
SENT = (sends("n1", "k", 1, 0), sends("n2", "k", 2, 1))
COMMIT = ("n1", "commit_offsets", None, {"k": 1}, "ok", {"k": 1})
LOGS = {
    "all there": ([*SENT, *finals({"k": BOTH}, {"k": BOTH})], True, "all 2 acknowledged messages"),
    "in parts": (
        [*SENT, *finals({"k": ONE}, {"k": BOTH}), polls("n1", {"k": 1}, {"k": [[1, 2]]}, "poll final")],
        True,
        "all 2",
    ),
    "lost": (
        [*SENT, *finals({"k": BOTH}, {"k": ONE})],
        False,
        "The send of 2 to n2 at 0.02 s was acknowledged with offset 1 of key 'k', and the poll at n2 at 0.06 s ended",
    ),
    "lost in the second read": (
        [*SENT, *finals({"k": BOTH}, {"k": BOTH}), *finals({"k": BOTH}, {"k": ONE})],
        False,
        "and the poll at n2 at 0.10 s ended without it",
    ),
    "silent": ([*SENT, *finals({"k": BOTH})], False, "n2 did not answer a read, although all faults were over"),
    "nothing": ([("n1", "send", "k", 1, "fail", 1), *finals({}, {})], "unknown", "no message was acknowledged"),
    "one offset twice": ([*SENT, sends("n1", "k", 3, 1)], False, "Two sends were given offset 1 of key 'k'"),
    "back in time": (
        [sends("n1", "k", 1, 5), sends("n2", "k", 2, 1)],
        False,
        "The send of 2 to n2 at 0.02 s was given offset 1 of key 'k', although it began after offset 5",
    ),
    "skipped": (
        [*SENT, polls("n1", {"k": 0}, {"k": [[1, 2]]})],
        False,
        "The poll at n1 at 0.04 s returned offset 1 of key 'k' but not 1 at offset 0, and that was acknowledged by",
    ),
    "changed": (
        [*SENT, polls("n1", {"k": 0}, {"k": [[0, 7]]})],
        False,
        "Offset 0 of key 'k' holds 1 by the send of 1 to n1 at 0.00 s, and 7 by the poll at n1",
    ),
    "unordered": ([*SENT, polls("n1", {"k": 0}, {"k": BOTH[::-1]})], False, "The offsets of a poll grow"),
    "unasked": ([*SENT, polls("n1", {"k": 1}, {"k": BOTH})], False, "but it asked for offsets from 1"),
    "other keys": ([*SENT, polls("n1", {"l": 0}, {"k": BOTH})], False, "but this key was not asked for"),
    "from nowhere": (
        [*SENT, polls("n1", {"k": 0}, {"k": [*BOTH, [2, 9]]})],
        False,
        "but no client had sent it for this key",
    ),
    "twice": (
        [
            ("n1", "send", "k", 3, "info", 3),
            polls("n1", {"k": 0}, {"k": [[0, 3]]}),
            polls("n1", {"k": 1}, {"k": [[1, 3]]}),
        ],
        False,
        "A message is in the log once",
    ),
    "refused": (
        [("n1", "send", "k", 3, "fail", 3), polls("n2", {"k": 0}, {"k": [[0, 3]]})],
        False,
        "was an error which promises that nothing happened",
    ),
    "unacknowledged and gone": (
        [
            *SENT,
            ("n1", "send", "k", 3, "info", 3),
            polls("n1", {"k": 2}, {"k": [[2, 3]]}),
            *finals({"k": BOTH}, {"k": BOTH}),
        ],
        False,
        "and in the end no node returns it",
    ),
    "a commit goes back": (
        [
            *SENT,
            COMMIT,
            ("n2", "list_committed_offsets", None, ["k"], "ok", {"k": 0}),
            ("n2", "commit_offsets", None, {"k": 0}, "ok", {"k": 0}),
            *finals({"k": BOTH}, {"k": BOTH}),
        ],
        False,
        "and no client had committed that",
    ),
    "a commit forgotten": (
        [*SENT, COMMIT, ("n2", "list_committed_offsets", None, ["k"], "ok", {}), *finals({"k": BOTH}, {"k": BOTH})],
        True,
        "all 2",
    ),
    "a commit refused": (
        [
            *SENT,
            ("n1", "commit_offsets", None, {"k": 1}, "fail", {"k": 1}),
            ("n2", "list_committed_offsets", None, ["k"], "ok", {"k": 1}),
        ],
        False,
        "Only the commit of offsets at n1 at 0.04 s asked for it",
    ),
}


@pytest.mark.parametrize(("told", "valid", "words"), LOGS.values(), ids=LOGS)
def test_logs_are_judged(told: list[tuple[Any, ...]], valid: object, words: str) -> None:
    judged = WORKLOADS["kafka"].judge(events(*told), NODES)
    assert judged.valid is valid, judged.reason
    assert words in judged.reason


def test_a_commit_that_goes_back_is_counted() -> None:
    told, *_ = LOGS["a commit forgotten"]
    assert WORKLOADS["kafka"].judge(events(*told), NODES).figures["committed_offsets_back"] == 1


def test_a_consumer_reads_on_from_what_is_committed() -> None:
    memories = WORKLOADS["kafka"].memories
    assert memories is not None
    remember = memories()
    one, other = remember(), remember()
    assert one.request(Op("send", 1, "k"), False) == Op("send", 1, "k")
    first = one.request(Op("poll", ["k", "l"]), False)
    assert first == Op("list_committed_offsets", ["k", "l"])
    assert one.answered(first, {"k": 4}, False) is None
    asked = one.request(Op("poll", ["l"]), False)
    assert asked == Op("poll", {"k": 5, "l": 0})
    assert one.answered(asked, {"k": [[5, "a"], [8, "b"]], "l": []}, False) == Op("commit_offsets", {"k": 8})
    assert one.request(Op("poll", ["l"]), False) == Op("poll", {"k": 9, "l": 0})
    one.forget()
    assert one.request(Op("poll", ["l"]), False) == Op("list_committed_offsets", ["l"])
    drained = other.request(Op("drain"), True)
    assert drained == Op("poll", {"k": 0}), "all clients know every key that one of them sent to"
    assert other.answered(drained, {"k": [[0, 1]]}, True) == Op("poll", {"k": 1})
    assert other.answered(Op("poll", {"k": 1}), {"k": [[0, 1]]}, True) is None, "a poll that brings nothing new is last"


BAD_KAFKA = {
    "no offset": (Op("send", 1, "k"), {"type": "send_ok"}, "without 'offset'"),
    "a text": (Op("send", 1, "k"), {"type": "send_ok", "offset": "1"}, "whose 'offset' is '1'"),
    "negative": (Op("send", 1, "k"), {"type": "send_ok", "offset": -1}, "An offset is an integer, 0 or more"),
    "no pairs": (Op("poll", {"k": 0}), {"type": "poll_ok", "msgs": {"k": [1]}}, "not an array of [offset, message]"),
    "a wrong pair": (Op("poll", {"k": 0}), {"type": "poll_ok", "msgs": {"k": [[True, 1]]}}, "An offset is an integer"),
    "no object": (Op("poll", {"k": 0}), {"type": "poll_ok", "msgs": []}, "whose 'msgs' is []"),
    "a null": (
        Op("list_committed_offsets", ["k"]),
        {"type": "list_committed_offsets_ok", "offsets": {"k": None}},
        "An offset is an integer",
    ),
}


@pytest.mark.parametrize(("op", "body", "words"), BAD_KAFKA.values(), ids=BAD_KAFKA)
def test_answers_about_logs_that_are_none(op: Op, body: dict[str, Any], words: str) -> None:
    with pytest.raises(Malformed) as raised:
        WORKLOADS["kafka"].answer(op, body)
    assert words in str(raised.value)


def test_requests_about_logs_are_maelstroms() -> None:
    request = kafka.workload().request
    assert request(Op("send", 3, "k")) == {"type": "send", "key": "k", "msg": 3}
    assert request(Op("poll", {"k": 2})) == {"type": "poll", "offsets": {"k": 2}}
    assert request(Op("commit_offsets", {"k": 2})) == {"type": "commit_offsets", "offsets": {"k": 2}}
    assert request(Op("list_committed_offsets", ["k"])) == {"type": "list_committed_offsets", "keys": ["k"]}
