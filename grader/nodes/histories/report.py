"""A history file judged, for the terminal: the verdict, the sentence, and the operations around the violation."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from grader.nodes.histories import history, models, page, view
from grader.nodes.histories.checker import STEPS, Checked, linearizable
from grader.nodes.histories.history import Operation
from grader.nodes.histories.sequential import sequential
from grader.nodes.histories.words import Clock
from grader.submission import BadRequest

_CHECKS: dict[str, Callable[..., Checked]] = {"linearizable": linearizable, "sequential": sequential}


@dataclass(frozen=True)
class Judged:
    """A file, its operations, what the check found, and the seconds that reading and checking took."""

    file: Path
    operations: list[Operation]
    checked: Checked
    seconds: float

    def to_json(self) -> dict[str, Any]:
        return self.checked.to_json(self.seconds)

    def page(self) -> str:
        return page.html(self.checked, self.operations, self.file.name)


def judge(file: Path, model: str, consistency: str = "linearizable", steps: int | None = None) -> Judged:
    """Read a history and check it, in at most `steps` steps. Raises BadRequest."""
    found = models.find(model)
    check = _CHECKS.get(consistency)
    if check is None:
        raise BadRequest(f"no consistency is called {consistency!r}; there are {', '.join(_CHECKS)}")
    started = time.perf_counter()
    operations = history.read(file)
    checked = check(operations, found, STEPS if steps is None else steps)
    return Judged(file, operations, checked, time.perf_counter() - started)


def print_judged(judged: Judged) -> None:
    """The verdict for people."""
    console, checked = Console(highlight=False), judged.checked
    colour = {True: "green", False: "red", "unknown": "yellow"}[checked.valid]
    line = Text(page.verdict(checked), style=f"bold {colour}")
    line.append(f"  {checked.operations:,} operations, model {checked.model}, {judged.seconds:.2f} s", style="default")
    console.print(line)
    if checked.reason:
        console.print(Text(page.clean(checked.reason)))
    if checked.stuck is None:
        return
    clock = Clock.of(judged.operations)
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("")
    for head in (f"from, {clock.unit}", f"to, {clock.unit}"):
        table.add_column(head, justify="right")
    for head in ("process", "operation", "outcome"):
        table.add_column(head)
    bad = {id(one) for one in checked.pair}
    for one in view.rows(checked, judged.operations):
        mark, style = ("✗", "red") if id(one) in bad else ("", "")
        cells = page.cells_of(one, clock, checked.consistency == "sequential")
        table.add_row(mark, *(Text(cell) for cell in cells), style=style)
    console.print()
    console.print(table)
