"""What a solution said about a history, held against what is in it: classes that it missed or claims falsely, and
witnesses that are none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from grader import says
from grader.exercises.find_anomaly import words
from grader.exercises.find_anomaly.cycles import KINDS, RW, chosen, components
from grader.exercises.find_anomaly.histories import History
from grader.exercises.find_anomaly.mistakes import MISTAKES
from grader.exercises.find_anomaly.readings import CLASSES, Reading
from grader.trace.dependencies import Dependencies

G2 = "G2-item"
MOST_NODES = 14  # of a component in which all cycles are looked at


class NoAnswer(Exception):  # noqa: N818 - says what is the case
    """A function returned something that is no list of pairs: what it is."""


@dataclass(eq=False)
class Answer:
    """The classes that a solution named for a history, each with its witness."""

    history: History
    claims: Mapping[str, list[Any]]

    @property
    def reading(self) -> Reading:
        return self.history.reading

    @cached_property
    def missing(self) -> list[str]:
        """Classes that the history has, and that were not named."""
        return [name for name in CLASSES if name in self.reading.classes and name not in self.claims]

    @cached_property
    def false(self) -> list[str]:
        """Classes that were named, and that the history does not have."""
        return [name for name in self.claims if name not in self.reading.classes and not self._optional(name)]

    def _optional(self, name: str) -> bool:
        """Whether a class may be named without having to: G2-item, where there is such a cycle or none can be ruled out."""
        return name == G2 and (
            self.reading.fits(G2, _known(self.reading, self.claims[G2])) or _may_have_g2(self.reading)
        )

    @cached_property
    def said(self) -> frozenset[str]:
        """The classes that were named, without a G2-item that need not be."""
        return frozenset(self.claims) - ({G2} if G2 not in self.reading.classes and G2 not in self.false else set())

    def wrong_witnesses(self) -> Iterator[tuple[str, str]]:
        """The classes whose witness is none, and why."""
        for name, witness in self.claims.items():
            if name not in self.false and (why := flaw(self.reading, name, witness)):
                yield name, why


def answer(history: History, returned: Any) -> Answer:
    """What a solution returned. Raises NoAnswer where it is no list of pairs of a class and indices."""
    if returned["kind"] not in ("list", "tuple"):
        advice = " Return [] if there is no anomaly." if returned["kind"] == "None" else ""
        what = "None" if returned["kind"] == "None" else f"a value of type {returned['kind']}"
        raise NoAnswer(f"`find_anomaly` returned {what} instead of a list of pairs (class, indices).{advice}")
    claims: dict[str, list[Any]] = {}
    for pair in returned["pairs"]:
        name = pair["name"]
        if name is None:
            raise NoAnswer(f"The list holds a value of type {pair['kind']}. It must hold pairs (class, indices) only.")
        if name not in CLASSES:
            raise NoAnswer(f'The class "{name[:40]}" is unknown. The classes are {says.listed(CLASSES)}.')
        if pair["witness"] is None:
            raise NoAnswer(
                f"The witness of {name} is a value of type {pair['kind']}. It must be a list of indices of transactions."
            )
        if name in claims:
            raise NoAnswer(f"The list names {name} twice. Report each class once, with one witness.")
        claims[name] = pair["witness"]
    return Answer(history, claims)


def _known(reading: Reading, witness: Sequence[Any]) -> list[int]:
    """A witness, if all of it are transactions and each is there once."""
    fine = len(witness) >= 2 and all(isinstance(index, int) and index in reading.by_index for index in witness)
    return list(witness) if fine and len(set(witness)) == len(witness) else []


def _may_have_g2(reading: Reading) -> bool:
    """Whether a cycle with two rw edges is there, or a component is too large to look at all of its cycles."""
    parts = components(reading.edges, KINDS)
    return any(len(nodes) > MOST_NODES or _has_g2(reading, nodes) for nodes in parts)


def _has_g2(reading: Reading, nodes: set[int]) -> bool:
    successors = {node: [b for b in nodes if (node, b) in reading.edges] for node in nodes}

    def onward(start: int, way: list[int], rw: int) -> bool:
        for target in successors[way[-1]]:
            more = rw + (RW in reading.edges[way[-1], target])
            if target == start and more >= 2:
                return True
            if target > start and target not in way and onward(start, [*way, target], more):
                return True
        return False

    return any(onward(start, [start], 0) for start in nodes)


def flaw(reading: Reading, name: str, witness: Sequence[Any]) -> str:
    """Why a witness is none of its class; "" if it is one."""
    odd = next((index for index in witness if not isinstance(index, int)), None)
    if odd is not None:
        return f"It holds {odd}, which is no index."
    strange = next((index for index in witness if index not in reading.by_index), None)
    if strange is not None:
        return f"No transaction has the index {strange}. Use the field `index`, not the place in the list."
    if len(set(witness)) < len(witness):
        return "It names a transaction twice. Name each transaction of the cycle once: the step back to the first is implied."
    return _pair_flaw(reading, name, witness) if name in ("G1a", "G1b") else _cycle_flaw(reading, name, witness)


def _pair_flaw(reading: Reading, name: str, witness: Sequence[int]) -> str:
    what = "the reader and the failed writer" if name == "G1a" else "the reader and the writer"
    if len(witness) != 2:
        return f"It has {says.counted(len(witness), 'index', 'indices')}. It must have two: {what}."
    if _is_pair(reading, name, witness):
        return ""
    return (
        f"{' and '.join(f'T{index}' for index in witness)} are not {what} of a {name}. "
        f"{words.sentence(words.dirty(reading, name)[1])}"
    )


def _is_pair(reading: Reading, name: str, witness: Sequence[Any]) -> bool:
    """Whether a witness of G1a or G1b is a reader and the writer of what it should not have read."""
    pairs = reading.aborted_reads() if name == "G1a" else _intermediate(reading)
    return any({writer, reader} == set(witness) for writer, reader, *_ in pairs)


def _intermediate(reading: Reading) -> Iterator[tuple[Any, ...]]:
    yield from reading.intermediate_reads()
    yield from Reading(reading.transactions, "clean_g1b").intermediate_reads()


def _cycle_flaw(reading: Reading, name: str, cycle: Sequence[int]) -> str:
    if len(cycle) < 2:
        return f"It has {says.counted(len(cycle), 'index', 'indices')}. A cycle goes through two transactions or more."
    if reading.fits(name, cycle):
        return ""
    if reading.fits(name, cycle[::-1]):
        return (
            "Backward it would be one: the edges lead from each transaction to the one before it in your list. List a cycle "
            "in the direction of its edges."
        )
    steps = reading.kinds(cycle)
    without = [at for at, step in enumerate(steps) if not step]
    if without:
        at = without[0]
        source, target = cycle[at], cycle[(at + 1) % len(cycle)]
        failed = [index for index in (source, target) if reading.by_index[index]["type"] == "fail"]
        why = f" T{failed[0]} failed, and failed transactions are no nodes of the graph." if failed else ""
        return f"There is no edge from T{source} to T{target}.{why}"
    is_one = [other for other in words.CYCLES if chosen(other, steps)]
    kinds = ", ".join(words.kinds_of(step) for step in steps[:12]) + (", ..." if len(steps) > 12 else "")
    return f"Its transactions are a cycle of class {says.listed(is_one, 'or')}: the edges are {kinds}."


def explained(given: Answer, answers: Sequence[Answer]) -> str:
    """The mistake that explains a wrong answer, in two sentences: in each of `answers` that it would make wrong, the same
    wrong answer was given, and at least a third of what is wrong there is so. "" where several do, or none."""
    wrong = [each for each in answers if each.missing or each.false]
    found = [
        mistake
        for mistake in MISTAKES
        if given.history.told(mistake) == given.said
        and all(_in_line(mistake, each) for each in answers)
        and 3 * sum(each.history.told(mistake) == each.said for each in wrong) >= len(wrong)
    ]
    named = {MISTAKES[mistake] for mistake in found}
    if len(named) != 1:
        return ""
    what, advice = named.pop()
    return f" Your program answers as if {what}. {advice}"


def _in_line(mistake: str, given: Answer) -> bool:
    """Whether somebody who makes this mistake would name the same classes, with these pairs of G1a and G1b."""
    told = given.history.told(mistake)
    if told not in (given.reading.classes, given.said):
        return False
    mistaken = Reading(given.history.transactions, mistake)
    return all(
        _is_pair(given.reading, name, witness) or _is_pair(mistaken, name, witness)
        for name, witness in given.claims.items()
        if name in ("G1a", "G1b") and len(witness) == 2
    )


# ---- pictures


def picture(given: Answer, name: str) -> Dependencies:
    """Of a claim: the cycle that was named, with the edges that there are."""
    reading, witness = given.reading, given.claims[name]
    known = _known(reading, witness)
    if name in ("G1a", "G1b") or not known:
        return shown(reading, name)
    steps = reading.kinds(known)
    kinds = chosen(name, steps) or [next(iter(step), "") for step in steps]
    if len(known) > 30:
        return shown(reading, name)
    found = words.cycle_picture(reading, known, kinds)
    found.subtitle = f"{given.history.label}: your witness of {name}"
    return found


def shown(reading: Reading, name: str) -> Dependencies:
    """A witness of a class that the history has; of one that it does not have nothing."""
    if name == "G1a":
        writer, reader, read, value = next(reading.aborted_reads())
        return words.pair_picture(reading, writer, reader, read.key, words.aborted(writer, read, value))
    if name == "G1b":
        writer, reader, read, value = next(reading.intermediate_reads())
        return words.pair_picture(reading, writer, reader, read.key, words.intermediate(reading, writer, read, value))
    if name in reading.cyclic:
        cycle = reading.cyclic[name]
        kinds = chosen(name, reading.kinds(cycle))
        assert kinds is not None
        return words.cycle_picture(reading, cycle, kinds)
    return Dependencies([], [])
