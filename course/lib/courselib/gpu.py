"""What one GPU was measured to do (`labs/one_gpu.py`), for chapters to show: its numbers, or how to measure them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from IPython.display import Markdown

from courselib.svg import si
from courselib.table import Table, table

KEPT = Path(__file__).with_name("one_gpu.json")
NO_GPU = "This lab needs an NVIDIA GPU, and torch sees none on this machine."
NOT_YET = (
    "*No numbers here: the course ships none from a GPU yet. On a machine with an NVIDIA GPU, "
    "`python labs/one_gpu.py {parts}` measures them and prints the table with the machine's name.*"
)


@dataclass(frozen=True)
class Row:
    """One thing that was measured: its part of the lab, seconds (0: not measured), and what the `unit` counts."""

    part: str
    what: str
    seconds: float
    rate: float = 0.0
    unit: str = ""


@dataclass(frozen=True)
class Measured:
    """What a machine did."""

    machine: str
    rows: tuple[Row, ...]

    def table(self, parts: Sequence[str] = ()) -> Table:
        """The rows of these parts (of all, if none is named), under the machine's name."""
        rows = [row for row in self.rows if not parts or row.part in parts]
        return table(
            [self.machine, "time", "rate or memory"],
            [[row.what, si(row.seconds, "s") if row.seconds else "", _amount(row)] for row in rows],
        )

    def save(self, file: Path = KEPT) -> None:
        """Write the rows, in place of those of the same parts that `file` has from the same machine."""
        before = kept(file)
        parts = {row.part for row in self.rows}
        others = (
            [row for row in before.rows if row.part not in parts] if before and before.machine == self.machine else []
        )
        whole = {"machine": self.machine, "rows": [asdict(row) for row in (*others, *self.rows)]}
        file.write_text(json.dumps(whole, indent=1) + "\n", "utf-8")


def _amount(row: Row) -> str:
    if not row.rate:
        return ""
    amount, _, more = row.unit.partition(" ")
    return f"{si(row.rate, amount)} {more}".strip()


def kept(file: Path = KEPT) -> Measured | None:
    """What was measured and kept, on whatever machine; None where nothing was."""
    if not file.exists():
        return None
    told = json.loads(file.read_text("utf-8"))
    return Measured(told["machine"], tuple(Row(**row) for row in told["rows"]))


def shown(*parts: str, file: Path = KEPT) -> Table | Markdown:
    """The table of these parts of the lab; where none was measured, one sentence on how to."""
    found = kept(file)
    if found is None or not any(row.part in parts for row in found.rows):
        return Markdown(NOT_YET.format(parts=" ".join(parts)))
    return found.table(parts)


def given_back(cuda: Any = torch.cuda, size: int = 2**28) -> Table | Markdown:
    """What PyTorch has for tensors, and holds of the driver, while a tensor of `size` bytes comes and goes."""
    if not cuda.is_available():
        return Markdown("*There is no GPU here, so there is no cache to empty.*")
    rows = []

    def note(after: str) -> None:
        rows.append([after, si(cuda.memory_allocated(), "B"), si(cuda.memory_reserved(), "B")])

    cuda.empty_cache()
    note("before")
    tensor = torch.empty(size, dtype=torch.uint8, device="cuda" if cuda is torch.cuda else "cpu")
    note("a tensor is made")
    cuda.empty_cache()
    note("`empty_cache()`, while it is there")
    del tensor
    note("`del tensor`")
    cuda.empty_cache()
    note("`empty_cache()` again")
    return table(["", "in tensors (`memory_allocated`)", "held (`memory_reserved`)"], rows)
