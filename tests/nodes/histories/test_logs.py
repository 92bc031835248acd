"""What clients saw of logs: each rule by a small history, and all rules against their definitions on random ones."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from typing import Any

import pytest

from grader.nodes.histories.log_requests import Malformed, operation
from grader.nodes.histories.log_words import operation_words, sentence
from grader.nodes.histories.logs import NEVER, Commit, Finding, Listed, Operation, Poll, Send, findings


def send(message: Any, offset: int | None, begin: float, key: str = "k", status: Any = None) -> Send:
    """A send that takes one second; without an offset nobody knows what came of it."""
    ok = offset is not None
    return Send(key, message, begin, begin + 1 if ok else NEVER, offset, status or ("ok" if ok else "info"))


def poll(begin: float, *pairs: tuple[int, Any], since: int = 0, key: str = "k") -> Poll:
    return Poll({key: since}, {key: pairs}, begin, begin + 1)


def commit(offset: int, begin: float, status: Any = "ok") -> Commit:
    return Commit({"k": offset}, begin, begin + 1 if status == "ok" else NEVER, status)


def listed(offset: int | None, begin: float) -> Listed:
    return Listed(("k",), {} if offset is None else {"k": offset}, begin, begin + 1)


A, B = send("a", 0, 0), send("b", 1, 2)

FINE: dict[str, list[Operation]] = {
    "nothing": [],
    "sent and polled": [A, B, poll(4, (0, "a"), (1, "b"))],
    "polls may be old, or empty": [A, B, poll(4), poll(5, (0, "a")), poll(6, (1, "b"), since=1)],
    "offsets may be sparse": [send("a", 3, 0), send("b", 70, 2), poll(4, (3, "a"), (70, "b"))],
    "sends at once, in any order": [send("a", 1, 0), send("b", 0, 0.5)],
    "an unknown send may appear": [send("a", None, 0), B, poll(4, (0, "a"), (1, "b"))],
    "and may not": [send("a", None, 0), B, poll(4, (1, "b"))],
    "polled before it is acknowledged": [send("a", 0, 0), poll(0.2, (0, "a"))],
    "equal messages are two": [send("a", 0, 0), send("a", 1, 2), poll(4, (0, "a"), (1, "a"))],
    "one of them unknown": [send("a", 0, 0), send("a", None, 2), poll(4, (0, "a"), (1, "a"))],
    "each key for itself": [send("a", 0, 0), send("a", 0, 2, key="other")],
    "1 and true": [send(1, 0, 0), send(True, 1, 2), poll(4, (0, 1), (1, True))],
    "a list of what was committed": [commit(3, 0), listed(3, 1)],
    "a lower commit changes nothing": [commit(3, 0), commit(1, 2), listed(3, 4)],
    "a list at the same time": [commit(3, 0), listed(None, 0.5)],
    "an unknown commit": [commit(3, 0, "info"), listed(3, 5), listed(3, 7)],
    "no key": [listed(None, 0)],
}

WRONG: dict[str, tuple[str, list[Operation]]] = {
    "polls differ": ("changed", [send("a", None, 0), send("b", None, 0), poll(4, (0, "a")), poll(6, (0, "b"))]),
    "not what was acknowledged": ("changed", [A, send("b", None, 0), poll(4, (0, "b"))]),
    "true is not 1": ("changed", [send(1, 0, 0), send(True, None, 0), poll(4, (0, True))]),
    "one offset twice": ("shared", [send("a", 0, 0), send("b", 0, 0.5)]),
    "one offset twice, equal messages": ("shared", [send("a", 0, 0), send("a", 0, 0.5)]),
    "a lower offset later": ("order", [send("a", 5, 0), send("b", 4, 1)]),
    "offsets fall": ("unordered", [send("a", 0, 0), send("b", 1, 0), poll(4, (1, "b"), (0, "a"))]),
    "an offset again": ("unordered", [A, poll(4, (0, "a"), (0, "a"))]),
    "before what was asked": ("unasked", [A, B, poll(4, (0, "a"), (1, "b"), since=1)]),
    "a key not asked": ("unasked", [A, Poll({"x": 0}, {"k": [(0, "a")]}, 4, 5)]),
    "past an acknowledged one": ("skipped", [A, B, poll(4, (1, "b"))]),
    "past one acknowledged later": ("skipped", [send("a", 1, 0), poll(2, (1, "a")), send("b", 0, 0.5)]),
    "past one polled later": (
        "skipped",
        [send("a", None, 0), B, poll(4, (1, "b")), poll(6, (0, "a"), (1, "b"))],
    ),
    "one send at two offsets": ("twice", [A, poll(4, (0, "a"), (1, "a"))]),
    "an unknown one at two": ("twice", [send("a", None, 0), poll(4, (0, "a"), (7, "a"))]),
    "equal ones, once too many": (
        "twice",
        [send("a", None, 0), send("a", None, 5), poll(2, (0, "a"), (1, "a"))],
    ),
    "refused and polled": ("refused", [send("a", None, 0, status="fail"), poll(4, (0, "a"))]),
    "from nowhere": ("unsent", [A, poll(4, (0, "a"), (1, "?"))]),
    "of another key": ("unsent", [A, poll(4, (0, "a"), key="x")]),
    "polled before it is sent": ("unsent", [send("a", 0, 5), poll(1, (0, "a"))]),
    "a commit is gone": ("back", [commit(3, 0), listed(None, 1)]),
    "a lower one overwrites": ("back", [commit(3, 0), commit(1, 2), listed(1, 4)]),
    "what was listed is gone": ("back", [commit(3, 0, "info"), listed(3, 1), listed(None, 4)]),
    "never committed": ("uncommitted", [commit(3, 0), listed(4, 2)]),
    "a key never committed": ("uncommitted", [listed(0, 2)]),
    "committed later": ("uncommitted", [listed(3, 0), commit(3, 5)]),
    "refused and listed": ("commit-refused", [commit(3, 0, "fail"), listed(3, 4)]),
}


@pytest.mark.parametrize("name", FINE)
def test_what_is_allowed(name: str) -> None:
    assert findings(FINE[name]) == []


@pytest.mark.parametrize("name", WRONG)
def test_what_is_not(name: str) -> None:
    what, operations = WRONG[name]
    found = findings(operations)
    assert [one.what for one in found] == [what]
    text = sentence(found[0], operation_words)
    assert ". " in text
    assert text.endswith(".")


def test_the_evidence_of_a_skipped_message_is_what_was_known_before_the_poll() -> None:
    late = send("late", 0, 3.5)
    known = send("known", 1, 0)
    passed = poll(4, (2, "c"))
    [found] = findings([send("c", 2, 0), known, late, passed])[-1:]
    assert (found.what, found.offset, found.evidence) == ("skipped", 1, (known, passed))


def test_a_final_reader_finds_all_that_was_acknowledged() -> None:
    unknown = send("c", None, 0)
    operations = [A, B, unknown]
    whole = poll(9, (0, "a"), (1, "b"))
    assert findings(operations, {"n1": [whole], "n2": [poll(9, (0, "a")), poll(10, (1, "b"), since=1)]}) == []
    [found] = findings(operations, {"n1": [whole], "n2": [poll(9, (0, "a"))]})
    assert (found.what, found.evidence[0]) == ("lost", B)
    [found] = findings([*operations, poll(5, (2, "c"), since=2)], {"n1": [whole], "n2": [whole]})
    assert (found.what, found.offset) == ("vanished", 2)
    assert findings([*operations, poll(5, (2, "c"), since=2)], {"n1": [whole, poll(9, (2, "c"), since=2)]}) == []


def test_the_first_of_each_kind_is_told_in_the_order_in_which_it_could_be_seen() -> None:
    found = findings([A, B, poll(8, (1, "b")), poll(6, (1, "b")), poll(4, (0, "x"))])
    assert [one.what for one in found] == ["changed", "unsent", "skipped"]
    assert found[2].evidence[1].begin == 6


# ---- against the definitions


def _wrong_by_definition(operations: Sequence[Operation]) -> set[str]:
    """What the contract says of one key, as it says it, by trying everything."""
    sends = [one for one in operations if isinstance(one, Send)]
    polls = [one for one in operations if isinstance(one, Poll)]
    commits = [one for one in operations if isinstance(one, Commit)]
    lists = [one for one in operations if isinstance(one, Listed)]
    given = [(one, one.offset) for one in sends if one.offset is not None]
    shown = {(offset, one.message) for one, offset in given} | {pair for one in polls for pair in one.got["k"]}
    found = set()
    told = [(one.end, 0, offset, one.message) for one, offset in given]
    told += [(one.end, 1, *pair) for one in polls for pair in one.got["k"]]
    for x, y in itertools.permutations(told, 2):
        if x == min(each for each in told if each[2] == y[2]) and x[3] != y[3] and x[1] + y[1] > 0:
            found.add("changed")
    for (a, first), (b, second) in itertools.permutations(given, 2):
        if first == second:
            found.add("shared")
        if a.end <= b.begin and second <= first:
            found.add("order")
    for one in polls:
        offsets = [offset for offset, _ in one.got["k"]]
        if sorted(set(offsets)) != offsets:
            found.add("unordered")
        if any(offset < one.asked["k"] for offset in offsets):
            found.add("unasked")
        if offsets and any(
            one.asked["k"] <= offset <= max(offsets) and offset not in offsets
            for offset, _ in shown
            if offset is not None
        ):
            found.add("skipped")
    seen = {pair: min(one.end for one in polls if pair in one.got["k"]) for one in polls for pair in one.got["k"]}
    if not _assigned(list(seen.items()), sends):
        found.add("not sent once")
    for each in lists:
        before = [c.offsets["k"] for c in commits if c.status == "ok" and c.end <= each.begin]
        before += [o.offsets["k"] for o in lists if "k" in o.offsets and o.end <= each.begin]
        if before and each.offsets.get("k", -1) < max(before):
            found.add("back")
        real = [c.offsets["k"] for c in commits if c.status != "fail" and c.begin <= each.end]
        if "k" in each.offsets and each.offsets["k"] not in real:
            found.add("not committed")
    return found


def _assigned(seen: list[tuple[tuple[int, Any], float]], sends: list[Send]) -> bool:
    """Whether each pair can be that of a send of its own, which had begun when it was polled."""
    if not seen:
        return True
    ((offset, message), end), *rest = seen
    for one in sends:
        fits = one.message == message and one.begin <= end and one.status != "fail"
        fits = fits and (one.status == "info" or one.offset == offset)
        if fits and _assigned(rest, [each for each in sends if each is not one]):
            return True
    return False


def _drawn(rng: random.Random) -> list[Operation]:
    """A small history that is right now and then."""
    log = [(offset, rng.choice("abc")) for offset in range(rng.randint(1, 4))]
    found: list[Operation] = []
    for offset, message in log:
        begin = offset + rng.uniform(-0.3, 0.3)
        kind = rng.choice(["ok", "ok", "info", "fail"]) if rng.random() < 0.5 else "ok"
        wrong = rng.choice([-1, 1]) if rng.random() < 0.1 else 0
        found.append(send(message, max(0, offset + wrong) if kind == "ok" else None, begin, status=kind))
    for _ in range(rng.randint(0, 3)):
        since, many = rng.randint(0, 2), rng.randint(0, 4)
        pairs = [pair for pair in log if pair[0] >= since][:many]
        if pairs and rng.random() < 0.2:
            pairs.pop(rng.randrange(len(pairs)))
        if pairs and rng.random() < 0.15:
            pairs.insert(rng.randrange(len(pairs) + 1), (rng.randint(0, 3), rng.choice("abc")))
        found.append(poll(rng.uniform(0, 6), *pairs, since=since))
    for _ in range(rng.randint(0, 2)):
        found.append(commit(rng.randint(0, 2), rng.uniform(0, 3), rng.choice(["ok", "ok", "info", "fail"])))
        found.append(listed(rng.choice([None, 0, 1, 2]), rng.uniform(0, 5)))
    rng.shuffle(found)
    return found


SAME = {"twice": "not sent once", "refused": "not sent once", "unsent": "not sent once"}
SAME |= {"uncommitted": "not committed", "commit-refused": "not committed"}


def _name(one: Finding) -> str:
    return SAME.get(one.what, one.what)


def test_random_histories_are_judged_as_the_rules_say() -> None:
    rng, right, kinds = random.Random(5), 0, set[str]()
    for _ in range(4000):
        operations = _drawn(rng)
        expected, found = _wrong_by_definition(operations), findings(operations)
        assert {_name(one) for one in found} == expected, operations
        right += not expected
        kinds |= expected
    assert right > 400
    assert len(kinds) == 9


def test_a_long_history_is_judged() -> None:
    """20,000 messages, polled a hundred at a time, twice: with quadratic steps this would not end."""
    count = 20_000
    operations: list[Operation] = [send(number, number, 2 * number) for number in range(count)]
    for start in range(0, count, 100):
        pairs = [(number, number) for number in range(start, start + 100)]
        operations += [poll(3 * count + start, *pairs, since=start), poll(5 * count + start, *pairs, since=start)]
    assert findings(operations) == []


# ---- bodies


@pytest.mark.parametrize(
    ("request_body", "answer", "expected"),
    [
        ({"type": "send", "key": "k", "msg": [1]}, {"type": "send_ok", "offset": 3}, Send("k", [1], 1, 2, 3, "ok")),
        ({"type": "send", "key": "k", "msg": 1}, {"type": "error", "code": 11}, Send("k", 1, 1, NEVER, None, "fail")),
        ({"type": "send", "key": "k", "msg": 1}, {"type": "error", "code": 13}, Send("k", 1, 1)),
        ({"type": "send", "key": "k", "msg": 1}, None, Send("k", 1, 1)),
        (
            {"type": "poll", "offsets": {"k": 1}}, {"type": "poll_ok", "msgs": {"k": [[1, "a"]]}},
            Poll({"k": 1}, {"k": [(1, "a")]}, 1, 2),
        ),
        ({"type": "poll", "offsets": {"k": 1}}, {"type": "error", "code": 11}, None),
        ({"type": "commit_offsets", "offsets": {"k": 1}}, {"type": "commit_offsets_ok"}, Commit({"k": 1}, 1, 2, "ok")),
        (
            {"type": "list_committed_offsets", "keys": ["k"]}, {"type": "list_committed_offsets_ok", "offsets": {}},
            Listed(("k",), {}, 1, 2),
        ),
        ({"type": "read", "key": "k"}, {"type": "read_ok"}, None),
    ],
)  # fmt: skip
def test_bodies_are_read(
    request_body: dict[str, Any], answer: dict[str, Any] | None, expected: Operation | None
) -> None:
    assert operation(request_body, answer, 1, None if answer is None else 2) == expected


@pytest.mark.parametrize(
    ("kind", "answer"),
    [
        ("send", {"offset": "3"}), ("send", {"offset": True}), ("send", {}), ("send", {"offset": -1}),
        ("send", {"offset": 1.0}), ("poll", {}), ("poll", {"msgs": []}), ("poll", {"msgs": {"k": {"0": "a"}}}),
        ("poll", {"msgs": {"k": [[0]]}}), ("poll", {"msgs": {"k": [["0", "a"]]}}),
        ("list_committed_offsets", {"offsets": []}), ("list_committed_offsets", {"offsets": {"k": None}}),
        ("list_committed_offsets", {"offsets": {"other": 1}}),
    ],
)  # fmt: skip
def test_answers_that_are_none(kind: str, answer: dict[str, Any]) -> None:
    body = {"type": kind, "key": "k", "msg": 1, "offsets": {"k": 0}, "keys": ["k"]}
    assert isinstance(operation(body, {"type": f"{kind}_ok", **answer}, 1, 2), Malformed)
