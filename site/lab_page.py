"""The page of the labs: what came out of each, with its date and versions, as course/labs/results has it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tools.labs import LABS, RESULTS, Lab

_INTRODUCTION = """# Labs

A lab is a program that runs a real system: a database, a cluster, a training library. The course's environment does
not have all of them, so a lab can have an environment of its own. Below is what each lab showed when it ran last, with
the date and the versions. The machine had two cores and was busy with other things: trust counts and values more than
seconds.

`make labs` sets up and runs all labs that this machine can run. `make labs FAST=1` runs those that take less than a
minute, and `make labs LABS="dask mpi"` runs only these two. The results replace the files in `course/labs/results`.
"""


def page(course: Path, labs: Sequence[Lab] = LABS, results: Path = RESULTS) -> str:
    """The page in Markdown, for the folder course/labs."""
    kept = {lab.name: _kept(results / f"{lab.name}.json") for lab in labs}
    lines = [_INTRODUCTION, "| lab | what came out | date |", "|---|---|---|"]
    for lab in labs:
        found = kept[lab.name]
        came = (_sentence(found["outcome"]), found["date"]) if found else ("No result is kept yet.", "")
        lines.append(f"| [{lab.name}](#{lab.name}) | {_cell(came[0])} | {came[1]} |")
    for lab in labs:
        lines += ["", f"## {lab.name}", "", *_lab(course, lab, kept[lab.name])]
    return "\n".join(lines) + "\n"


def _kept(path: Path) -> dict[str, Any] | None:
    return json.loads(path.read_text()) if path.exists() else None


def _lab(course: Path, lab: Lab, found: dict[str, Any] | None) -> list[str]:
    chapter = next(course.glob(f"{lab.chapter}-*.ipynb")).name
    needs = [f"It needs {lab.programs}."] if lab.programs else []
    if lab.own:
        needs.append(f"Its environment is set up the first time, which takes about {_time(lab.own.seconds)}.")
    program = (
        f"The program is [`{lab.program}.py`]({lab.program}.py), and chapter [{lab.chapter}](../{chapter}) uses it."
    )
    told = [f"{lab.shows} {program}", "", "```sh", f"make labs LABS={lab.name}    # about {_time(lab.seconds)}", "```"]
    told += ["", " ".join(needs)] if needs else []
    if found is None:
        return [*told, "", "No result is kept yet."]
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    told += ["", f"**{found['date']}**, with {versions}: {found['outcome']}.", ""]
    if found["rows"]:
        head = found["head"] or ["what was done or asked", "what came of it"]
        told += [_row(head), "|" + "---|" * len(head), *map(_row, found["rows"])]
    return told


def _row(cells: Sequence[str]) -> str:
    """A row of a Markdown table; what a lab indents is below the row before."""
    first, *others = map(_cell, cells)
    return f"| {'– ' if first.startswith('  ') else ''}{first.strip()} | {' | '.join(others)} |"


def _cell(text: str) -> str:
    return text.replace("|", r"\|").replace("<", r"\<").replace("[", r"\[").replace("*", r"\*").replace("_", r"\_")


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + "."


def _time(seconds: int) -> str:
    return f"{seconds} seconds" if seconds < 100 else f"{round(seconds / 60)} minutes"
