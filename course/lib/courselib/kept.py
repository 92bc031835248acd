"""What a lab said when it was last run on this machine: `make labs` keeps it in course/labs/results."""

from __future__ import annotations

import json

from courselib.table import Table, table
from grader import catalog


def kept(name: str, command: str) -> Table:
    """The rows of that lab with the date and the versions; where it was never run, the `command` that runs it."""
    path = catalog.course() / "labs" / "results" / f"{name}.json"
    if not path.exists():
        return Table(f"This lab was not run here yet: `{command}` runs it.")
    found = json.loads(path.read_text("utf-8"))
    with_what = ", ".join(f"{what} {version}" for what, version in found["versions"].items())
    head = found.get("head") or ["", "seen"]
    return Table(f"Run on {found['date']}, with {with_what}.\n\n{table(head, found['rows']).text}")
