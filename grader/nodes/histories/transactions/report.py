"""A file of transactions judged: in the terminal, as JSON, and as a page."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from grader import says
from grader.nodes.histories import page
from grader.nodes.histories.transactions import finding, levels, picture, reading, telling
from grader.nodes.histories.transactions.finding import Judged
from grader.nodes.histories.transactions.parts import Anomaly, Edge
from grader.nodes.histories.transactions.transaction import Transaction
from grader.submission import BadRequest

MODELS = {"txn-list-append": "list-append", "txn-rw-register": "rw-register"}
DEFAULT = "serializable"


@dataclass(frozen=True)
class JudgedFile:
    """A file, its transactions, what the check found, and the seconds that reading and checking took.

    `holds` are the levels that no anomaly found speaks against.
    """

    file: Path
    transactions: list[Transaction]
    judged: Judged
    holds: tuple[str, ...]
    seconds: float

    @property
    def by_index(self) -> dict[int, Transaction]:
        return {one.index: one for one in self.transactions}

    @property
    def told(self) -> tuple[Anomaly, ...]:
        """The anomalies that people are told: a cycle that has two names only by the first, which says more."""
        met: list[frozenset[Edge]] = []
        told = []
        for one in self.judged.anomalies:
            edges = frozenset(one.edges)
            if not edges or edges not in met:
                told.append(one)
            met.append(edges)
        return tuple(told)

    @property
    def verdict(self) -> str:
        """ "serializable", "not serializable" """
        return self.judged.isolation if self.judged.valid else f"not {self.judged.isolation}"

    @property
    def facts(self) -> str:
        return f"{says.counted(len(self.transactions), 'transaction')}, model txn-{self.judged.workload}"

    @property
    def rest(self) -> str:
        """What is left of a history that is not as asked: the strongest levels that it may have."""
        if not self.holds:
            return "These anomalies are forbidden at every level of isolation."
        last = {levels.LEVELS[name].forbids: name for name in self.holds}  # of two that forbid the same, the later one
        strongest = [name for forbids, name in last.items() if not any(forbids < other for other in last)]
        return f"Nothing here speaks against {says.listed(strongest)}."

    def to_json(self) -> dict[str, Any]:
        """The object that `rankup history check --json` prints."""
        by_index = self.by_index
        found = [
            {"kind": one.kind, "transactions": list(one.indices), "reason": telling.sentence(one, by_index)}
            for one in self.judged.anomalies
        ]
        return {
            "valid": self.judged.valid,
            "transactions": len(self.transactions),
            "seconds": round(self.seconds, 4),
            "model": f"txn-{self.judged.workload}",
            "isolation": self.judged.isolation,
            "anomalies": found,
            "holds": list(self.holds),
        }

    def page(self) -> str:
        """A self-contained HTML page: the verdict, and each anomaly in words and as a picture."""
        tone = "good" if self.judged.valid else "bad"
        heading = f'<h1>{escape(self.file.name)}: <span class="{tone}">{escape(self.verdict)}</span></h1>'
        return page.whole(self.file.name, "\n".join((heading, *self._told())))

    def _told(self) -> Iterator[str]:
        yield f'<p class="facts">{escape(self.facts)}</p>'
        if not self.judged.valid:
            yield f"<p>{escape(self.rest)}</p>"
        by_index = self.by_index
        for one in self.told:
            yield f'<figure class="follows">{picture.svg(one, by_index, telling.title(one.kind))}</figure>'
        if self.judged.anomalies:
            yield '<p class="facts">Point at a transaction to read all of it.</p>'


def judge(file: Path, model: str, isolation: str | None = None, linearizable_keys: bool = False) -> JudgedFile:
    """Read a history and check it. Raises BadRequest, with one sentence."""
    name = isolation or DEFAULT
    try:
        level = levels.level(name)
    except ValueError as error:
        raise BadRequest(str(error)) from None
    workload = MODELS[model]
    if linearizable_keys and workload != "rw-register":
        raise BadRequest("--linearizable-keys is for the model txn-rw-register. Lists show the order of their versions")
    started = time.perf_counter()
    transactions = reading.read(file, workload)
    try:
        found = finding.find(transactions, workload, True, True, linearizable_keys, unread=True)
    except BadRequest as error:
        raise BadRequest(f"{file}: {error}") from None
    kinds = {one.kind for one in found}
    holds = tuple(each.name for each in levels.LEVELS.values() if not kinds & each.forbids)
    bad = tuple(one for one in found if one.kind in level.forbids)
    judged = Judged(not bad, bad, name, workload)
    return JudgedFile(file, transactions, judged, holds, time.perf_counter() - started)


def print_judged(judged: JudgedFile) -> None:
    """The verdict for people."""
    console = Console(highlight=False)
    line = Text(judged.verdict, style=f"bold {'green' if judged.judged.valid else 'red'}")
    line.append(f"  {judged.facts}, {judged.seconds:.2f} s", style="default")
    console.print(line)
    if judged.judged.valid:
        return
    console.print(Text(judged.rest))
    by_index = judged.by_index
    for one in judged.told:
        console.print()
        console.print(Text(f"✗ {telling.title(one.kind)}", style="red"))
        console.print(Text(page.clean(telling.sentence(one, by_index))))
        for index in dict.fromkeys(one.indices[:8]):
            own = by_index[index]
            console.print(Text(page.clean(f"  T{index}: {'; '.join(telling.op(op) for op in own.ops)}"), style="dim"))
