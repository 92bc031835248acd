"""The judge of find_anomaly: the statement's example, what histories say, false witnesses, what is optional."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from grader import submission
from grader.exercise import Draw
from grader.exercises.find_anomaly import in_box
from grader.exercises.find_anomaly.apart import ADDING
from grader.exercises.find_anomaly.cycles import chosen
from grader.exercises.find_anomaly.histories import LONGEST_RING, SIZES, History, built, cases, parsed, ring, store
from grader.exercises.find_anomaly.judging import Answer, NoAnswer, answer, explained, flaw
from grader.exercises.find_anomaly.mistakes import MISTAKES
from grader.exercises.find_anomaly.readings import CLASSES, Reading
from grader.exercises.find_anomaly.situations import RINGS, SITUATIONS
from grader.nodes.histories import transactions as checker
from grader.nodes.histories.transactions.stores import LEVELS, Store, plain

NOTEBOOK = Path(__file__).parents[2] / "solutions" / "15-transactions-isolation-logs" / "find_anomaly.ipynb"
EXAMPLE = "a: x+1 y+1; b: x=1 y=1 x+2; c: x=1 y=1 y+2; !d: x+7; ?e: y+3 x~; f: x=1,7,2 y=1,2; z: x=1,2 y=1,2,3"
SKEW = "a: x= y= x+1; b: x= y= y+1; z: x=1 y=1"
LOST = "a: x= x+1; b: x= x+2; z: x=1,2"


@pytest.fixture(scope="module")
def solution() -> Any:
    names: dict[str, Any] = {}
    exec(submission.read(NOTEBOOK, ("find_anomaly",)).source, names)
    return names["find_anomaly"]


def history(text: str) -> History:
    return History("", "small", parsed(text))


def built_cases(draw: Draw) -> list[History]:
    """All but those that stores draw."""
    return [case.expected for case in islice(cases(draw), len(SITUATIONS) + len(RINGS))]


def claims(text: str, **named: list[Any]) -> Answer:
    pairs = [{"kind": "", "name": name.replace("_", "-"), "witness": witness} for name, witness in named.items()]
    return answer(history(text), {"kind": "list", "pairs": pairs})


def by_the_checker(transactions: list[dict[str, Any]]) -> frozenset[str]:
    """The classes that the library's own checker of transactions finds."""
    found = checker.find(
        [
            checker.Transaction(
                txn["index"],
                txn["process"],
                txn["type"],
                tuple(
                    checker.Op(f, key, value if f == "append" else tuple(value or ()) if txn["type"] == "ok" else None)
                    for f, key, value in txn["ops"]
                ),
            )
            for txn in transactions
        ]
    )
    return frozenset(anomaly.kind for anomaly in found) & frozenset(CLASSES)


def test_the_worked_example(solution: Any) -> None:
    reading = history(EXAMPLE).reading
    assert {pair: set(kinds) for pair, kinds in reading.edges.items()} == {
        (0, 1): {"ww", "wr"}, (0, 2): {"ww", "wr"}, (2, 4): {"ww"}, (1, 2): {"rw"}, (2, 1): {"rw"}, (1, 5): {"wr"},
        (2, 5): {"wr"}, (1, 6): {"wr"}, (4, 6): {"wr"}, (5, 4): {"rw"},
    }  # fmt: skip
    assert {name: set(witness) for name, witness in solution(parsed(EXAMPLE))} == {"G1a": {3, 5}, "G2-item": {1, 2}}


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda situation: situation.label)
def test_each_situation_is_what_it_says_and_tells_its_mistakes(situation: Any) -> None:
    transactions = built(Draw(1).generator("names"), situation).transactions
    assert by_the_checker(transactions) == situation.present


@pytest.mark.parametrize(("group", "label", "present", "steps"), RINGS, ids=[row[1] for row in RINGS])
def test_rings_of_every_length(group: str, label: str, present: str, steps: tuple[str, ...]) -> None:
    repeated = any(step.startswith("*") for step in steps)
    for length in range(max(3, len(steps)), 13) if repeated else [len(steps)]:
        made = ring(Draw(1).generator(f"{length}"), group, label, steps, length)
        assert made.reading.classes == by_the_checker(made.transactions) == frozenset(present.split())
        assert all(len(cycle) == length for cycle in made.reading.cyclic.values())


@pytest.mark.parametrize("level", LEVELS)
def test_stores_are_read_as_the_checker_reads_them(level: str) -> None:
    for seed in range(4):
        transactions = plain(Store(Draw(seed).generator(level), level, 8, 10).run(60))
        reading = Reading(transactions)
        assert reading.classes == by_the_checker(transactions)
        assert all(reading.fits(name, cycle) for name, cycle in reading.cyclic.items())


def test_a_serializable_store_shows_nothing_and_snapshots_only_write_skew() -> None:
    for seed in range(6):
        for level, allowed in (("serializable", frozenset[str]()), ("snapshot", frozenset({"G2-item"}))):
            transactions = plain(Store(Draw(seed).generator("store"), level, 6, 10).run(80))
            assert Reading(transactions).classes <= allowed


@pytest.mark.heavy
def test_every_mistake_is_told_by_some_history() -> None:
    drawn = [case.expected for case in cases(Draw(3)) if case.group != "large"]
    for mistake in MISTAKES:
        assert any(each.told(mistake) != each.reading.classes for each in drawn), mistake


@pytest.mark.heavy
def test_histories_are_drawn_afresh_from_the_seed() -> None:
    first, again, other = ([case.arguments for case in cases(Draw(seed))] for seed in (1, 1, 2))
    assert first == again
    assert all(one != two for one, two in zip(first, other, strict=True))


@pytest.mark.parametrize("level", SIZES)
def test_what_built_histories_are_about_is_not_decided_by_what_stores_draw(level: str) -> None:
    """Who makes one of these mistakes finds the same classes in a store, and true witnesses."""
    drawn = store(Draw(2).generator(level), level)
    for mistake in (*ADDING, "no_first", "null_skipped", "g1b_own"):
        other = Reading(drawn.transactions, mistake)
        assert other.classes == drawn.reading.classes, mistake
        assert all(drawn.reading.fits(name, cycle) for name, cycle in other.cyclic.items()), mistake
    clean = list(drawn.reading.intermediate_reads())
    with_failed = Reading(drawn.transactions, "failed_in").intermediate_reads()
    assert {(writer, reader) for writer, reader, *_ in with_failed} <= {
        (writer, reader) for writer, reader, *_ in clean
    }


def test_the_longest_cycle_is_tried_whatever_is_drawn() -> None:
    for seed in range(4):
        made = [each for each in built_cases(Draw(seed)) if each.group in ("writes", "single", "item")]
        longest = {each.group for each in made if any(len(way) == LONGEST_RING for way in each.reading.cyclic.values())}
        assert longest == {"writes", "single", "item"}


def test_one_choice_of_kinds_is_enough() -> None:
    why: Any = None
    assert chosen("G0", [{"ww": why, "wr": why}, {"ww": why}]) == ["ww", "ww"]
    assert chosen("G1c", [{"ww": why, "wr": why}, {"ww": why}]) == ["wr", "ww"]
    assert chosen("G1c", [{"ww": why}, {"ww": why}]) is None
    assert chosen("G-single", [{"rw": why, "ww": why}, {"rw": why}]) == ["ww", "rw"]
    assert chosen("G-single", [{"rw": why}, {"rw": why}]) is None
    assert chosen("G2-item", [{"rw": why, "ww": why}, {"rw": why}]) == ["rw", "rw"]
    assert chosen("G2-item", [{"rw": why}, {"ww": why}]) is None
    assert chosen("G0", [{"ww": why}, {}]) is None


def test_witnesses_that_are_none() -> None:
    three = history("a: k+1; b: k+2 l+1; c: l+2 k=1; z: k=1,2 l=1,2").reading  # a -> b -> c, c -> b by rw, a -> c by wr
    assert flaw(three, "G-single", [1, 2]) == ""
    assert "no edge from T1 to T0" in flaw(three, "G-single", [0, 1])
    assert "twice" in flaw(three, "G-single", [1, 2, 1])
    assert "index 9" in flaw(three, "G-single", [1, 9])
    assert "two transactions or more" in flaw(three, "G-single", [1])
    assert "of class G-single" in flaw(three, "G2-item", [1, 2])
    backward = history("a: k+1 m=1; b: k=1 l+1; c: l=1 m+1; z: k=1 l=1 m=1").reading
    assert flaw(backward, "G1c", [1, 2, 0]) == ""
    assert "Backward" in flaw(backward, "G1c", [2, 1, 0])
    aborted = history("!a: x+1; b: x=1; z: x=").reading
    assert flaw(aborted, "G1a", [1, 0]) == flaw(aborted, "G1a", [0, 1]) == ""
    assert "two" in flaw(aborted, "G1a", [1])
    assert "T1 read x = [1]" in flaw(aborted, "G1a", [2, 0])


def test_g2_item_may_be_named_where_there_is_one() -> None:
    both = "a: x= y+1 w+1; b: y= x+1; c: w= y+2; z: x=1 y=1,2 w=1"  # G-single of a and c, two rw edges of a and b
    named = claims(both, G_single=[0, 2], G2_item=[0, 1])
    assert not named.missing
    assert not named.false
    assert not list(named.wrong_witnesses())
    assert named.said == {"G-single"}
    assert [name for name, _ in claims(both, G_single=[0, 2], G2_item=[0, 2]).wrong_witnesses()] == ["G2-item"]
    assert claims(LOST, G_single=[0, 1], G2_item=[0, 1]).false == ["G2-item"]
    assert claims(SKEW).missing == ["G2-item"]


def test_what_is_no_list_of_pairs() -> None:
    for returned, words in (
        (None, "None"),
        ({"G0": [1, 2]}, "of type dict"),
        ([("G0", 3)], "of type int"),
        (["G0"], "of type str"),
        ([("G2", [1, 2])], "unknown"),
        ([("G0", [0, 1]), ("G0", [1, 0])], "twice"),
    ):
        plain = in_box.found(lambda _, returned=returned: returned, [])
        with pytest.raises(NoAnswer, match=words):
            answer(history(SKEW), plain)


@pytest.mark.heavy
def test_a_mistake_is_named_where_all_answers_agree_with_it() -> None:
    drawn = [case.expected for case in cases(Draw(2)) if case.group not in ("large", "stores")]

    def answers(mistake: str) -> list[Answer]:
        return [Answer(each, {name: [] for name in each.told(mistake)}) for each in drawn]

    for mistake in ("one_kind", "info_failed", "pairs", "no_first"):
        given = answers(mistake)
        wrong = next(each for each in given if each.missing or each.false)
        assert MISTAKES[mistake][0] in explained(wrong, given)
    mixed = [one if at % 2 else two for at, (one, two) in enumerate(zip(answers("no_rw"), answers(""), strict=True))]
    assert explained(next(each for each in mixed if each.missing), mixed) == ""
