"""The page of the labs: what came out of each, with its date and versions, as course/labs/results has it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from courselib import lab as lab_result
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
    labs = sorted(labs, key=lambda lab: lab.chapter)
    kept = {lab.name: lab_result.kept(lab.name, results) for lab in labs}
    lines = [_INTRODUCTION, "| lab | what came out | date |", "|---|---|---|"]
    for lab in labs:
        found = kept[lab.name]
        came = (
            (_sentence(found["outcome"]), found["date"].replace("-", "\N{NON-BREAKING HYPHEN}"))
            if found
            else ("No result is kept yet.", "")
        )
        lines.append(f"| [{lab.name}](#{lab.name}) | {lab_result.cell(came[0])} | {came[1]} |")
    for lab in labs:
        lines += ["", f"## {lab.name}", "", *_lab(course, lab, kept[lab.name])]
    return "\n".join(lines) + "\n"


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
    return [*told, "", lab_result.told(found)]


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + "."


def _time(seconds: int) -> str:
    return f"{seconds} seconds" if seconds < 100 else f"{round(seconds / 60)} minutes"
