"""What a checker says of a history, with its picture: of a run's clients, or of operations written down."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from courselib.cluster import Run
from courselib.svg import Drawn, Plot
from grader.nodes.histories import picture
from grader.nodes.histories.checker import Checked, linearizable
from grader.nodes.histories.history import Operation, pair
from grader.nodes.histories.sequential import sequential
from grader.trace.story import Fault

WORDS = {True: "", False: "not ", "unknown": "not decided whether "}
CONSISTENCIES = {
    "linearizable": "linearizable",
    "sequential": "sequentially consistent",
    "serializable": "serializable",
}


@dataclass(frozen=True)
class Judged(Drawn):
    """A history and the verdict. Shown, it is the picture: a bar for each operation, what contradicts in red."""

    checked: Checked = field(repr=False)
    operations: tuple[Operation, ...] = field(repr=False)
    faults: tuple[Fault, ...] = field(default=(), repr=False)
    title: str = ""
    asked: str = "linearizable"  # one of CONSISTENCIES

    @property
    def valid(self) -> bool:
        return self.checked.valid is True

    @property
    def verdict(self) -> str:
        """ "linearizable", "not sequentially consistent", ..."""
        return WORDS[self.checked.valid] + CONSISTENCIES[self.asked]

    @property
    def reason(self) -> str:
        """Why it is not, in a sentence; "" where it is."""
        return self.checked.reason or ""

    @property
    def order(self) -> str:
        """The order that explains the history, or as much of it as has one: "A write 1, B read 1"."""
        return ", ".join(_said(one) for one in self.checked.order)

    def picture(self, title: str = "") -> Plot:
        title = title or (f"{self.title}: {self.verdict}" if self.title else self.verdict.capitalize())
        return Plot(picture.svg(self.checked, self.operations, title, self.faults), title)


def judged(told: Run | Iterable[Operation], consistency: str = "linearizable", title: str = "") -> Judged:
    """Check a run's reads, writes and cas, or operations, key by key (Herlihy and Wing 1990); or as "sequential"
    (Lamport 1979), or "serializable": as transactions of one operation each, which any order at all may explain.

    Raises BadRequest where a run's clients asked for nothing, KeyError for another word.
    """
    faults: tuple[Fault, ...] = ()
    if isinstance(told, Run):
        faults = tuple(told.story.faults)
        told = pair(told.history)
    operations = tuple(told)
    checks = {"linearizable": linearizable, "sequential": sequential, "serializable": _in_any_order}
    model = "cas-register" if any(one.key is None for one in operations) else "kv"
    return Judged(checks[consistency](operations, model), operations, faults, title, consistency)


def _in_any_order(operations: Sequence[Operation], model: str) -> Checked:
    """Sequential consistency where each operation has a process of its own."""
    found = sequential([replace(one, process=number) for number, one in enumerate(operations)], model)
    known = {one.called: one for one in operations}
    order = tuple(known[one.called] for one in found.order)
    if found.stuck is None:
        return replace(found, order=order)
    stuck, contradicting = known[found.stuck.called], tuple(known[one.called] for one in found.pair)
    reason = f"No order at all explains the history; the longest that was found holds {len(order)} of its operations."
    return replace(found, order=order, stuck=stuck, pair=contradicting, reason=reason)


def _said(one: Operation) -> str:
    value = one.result if one.f == "read" else one.value
    key = "" if one.key is None else f"{one.key}="
    return f"{one.process} {one.f} {key}{'-' if value is None else value}"
