"""What came out of a lab when it ran last (`labs/results/NAME.json`), for chapters and the site's page of labs."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from courselib.table import Table

RESULTS = Path("labs/results")  # chapters run in the folder course


def kept(name: str, results: Path = RESULTS) -> dict[str, Any] | None:
    """The lab's last result: date, outcome, versions, figures, head, rows. None where none is kept."""
    path = results / f"{name}.json"
    if not path.exists():
        return None
    found: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return found


def shown(name: str, results: Path = RESULTS) -> Table:
    """The lab's last result in Markdown: one sentence with the date and the versions, and its rows."""
    found = kept(name, results)
    if found is None:
        return Table(f"No result of this lab is kept yet. `make labs LABS={name}` runs it.")
    return Table(f"`make labs LABS={name}` on {told(found)}")


def run(program: str, *arguments: str) -> dict[str, Any]:
    """What `labs/PROGRAM.py --json ARGUMENTS` prints; where it fails one row, with the end of what it says, and no
    figures. Whoever interrupts it interrupts the lab, which then ends what it has started."""
    command = [sys.executable, f"labs/{program}.py", "--json", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            printed, errors = process.communicate()
        except BaseException:
            process.terminate()
            raise
    if process.returncode:
        return {"rows": [["not run", errors.strip()[-300:]]], "figures": {}}
    ran: dict[str, Any] = json.loads(printed)
    return ran


def told(found: Mapping[str, Any]) -> str:
    """Date, versions and outcome as a sentence, and the rows as a table below."""
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    lines = [f"**{found['date']}**, with {versions}: {cell(found['outcome'])}."]
    if found["rows"]:
        head = found["head"] or ["what was done or asked", "what came of it"]
        lines += ["", _row(head), "|" + "---|" * len(head), *map(_row, found["rows"])]
    return "\n".join(lines)


def cell(text: str) -> str:
    """A lab's text, of which Markdown takes nothing for its own."""
    return re.sub(r"([|<\[\]*_`\\])", r"\\\1", text)


def _row(cells: Sequence[str]) -> str:
    """A row of a Markdown table. A lab indents what belongs to the row before."""
    first, *others = map(cell, cells)
    return f"| {'– ' if first.startswith('  ') else ''}{first.strip()} | {' | '.join(others)} |"
