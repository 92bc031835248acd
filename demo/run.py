"""The main job, end to end: a class's submissions go in, points, reasons and pictures come out.

    python demo/run.py

Uses nbgrader and `rankup class grade` as a teacher would; everything is written under build/demo.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import nbformat
from nbgrader.api import Gradebook
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from grader.classroom.check import MIME

ROOT = Path(__file__).resolve().parent.parent
CLASS = ROOT / "build" / "demo"
RELEASE = CLASS / "release"
ASSIGNMENT, NOTEBOOK = "06-collectives", "ring_all_reduce"

console = Console(highlight=False)


def nbgrader(command: str, *arguments: str) -> Iterator[str]:
    """Run one nbgrader command on the demo's class and yield its log, line by line; ends the demo if it fails."""
    process = subprocess.Popen(
        [sys.executable, "-m", "nbgrader", command, ASSIGNMENT, *arguments],
        cwd=ROOT,
        # who hands in here is trusted: the demo also runs where boxes cannot be made
        env={**os.environ, "RANKUP_CLASS": str(CLASS), "RANKUP_TRUST_SUBMISSIONS": "1", "NO_COLOR": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    log = []
    for line in process.stderr:
        log.append(line)
        yield line
    if process.wait() != 0:
        sys.exit(f"nbgrader {command} failed:\n{''.join(log[-20:])}")


def grade_class() -> None:
    """Run `rankup class grade` and show its lines on the learners; the rest of what it says is told below."""
    process = subprocess.Popen(
        # these ten are ours: they are graded also where nothing can isolate them
        [Path(sys.executable).parent / "rankup", "class", "grade", ASSIGNMENT, "--trust-submissions"],
        cwd=ROOT,
        env={**os.environ, "RANKUP_CLASS": str(CLASS), "NO_COLOR": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    log = []
    for line in process.stdout:
        log.append(line)
        if re.match(r" *\d+ of \d+  ", line):
            console.print(f"   {line.rstrip()}", markup=False)
    if process.wait() != 0:
        sys.exit(f"rankup class grade failed:\n{''.join(log[-20:])}")


def step(title: str) -> None:
    console.print(f"[bold]{title}[/]")


def hand_in(source: Path) -> None:
    """Put a learner's code into the solution cell of the released notebook, as they would have handed it in."""
    notebook = nbformat.read(RELEASE / ASSIGNMENT / f"{NOTEBOOK}.ipynb", as_version=4)
    cell = next(cell for cell in notebook.cells if cell.metadata.get("nbgrader", {}).get("solution"))
    cell.source = source.read_text().rstrip()
    folder = CLASS / "submitted" / source.stem / ASSIGNMENT
    folder.mkdir(parents=True)
    nbformat.write(notebook, folder / f"{NOTEBOOK}.ipynb")


def first_reason(learner: str) -> tuple[str, str]:
    """Kind and sentence of the first check that lost points, from the graded notebook."""
    path = CLASS / "autograded" / learner / ASSIGNMENT / f"{NOTEBOOK}.ipynb"
    for cell in json.loads(path.read_text())["cells"]:
        for output in cell.get("outputs", []):
            for check in output.get("data", {}).get(MIME, []):
                if check["diagnosis"]:
                    return check["diagnosis"]["kind"], check["diagnosis"]["message"]
    return "", "everything is right"


def table(learners: list[str]) -> Table:
    """Who, points, kind, and what happened."""
    rows = Table(box=None, pad_edge=False)
    for column in ("who", "points", "kind", "what happened"):
        rows.add_column(column, justify="right" if column == "points" else "left", overflow="fold")
    with Gradebook(f"sqlite:///{CLASS / 'gradebook.db'}", "rankup") as book:
        for learner in learners:
            submission = book.find_submission_notebook(NOTEBOOK, ASSIGNMENT, learner)
            kind, sentence = first_reason(learner)
            rows.add_row(learner, f"{submission.score:g}/{submission.max_score:g}", kind, escape(sentence))
    return rows


def main() -> None:
    started = time.monotonic()
    shutil.rmtree(CLASS, ignore_errors=True)
    CLASS.mkdir(parents=True)
    sources = sorted((ROOT / "demo" / "submissions").glob("*.py"))

    step("1. Generate the assignment from solutions/ (nbgrader generate_assignment)")
    for _ in nbgrader("generate_assignment", "--force", f"--CourseDirectory.release_directory={RELEASE}"):
        pass

    step(f"2. {len(sources)} learners hand in")
    for source in sources:
        hand_in(source)

    step("3. Grade the class, each submission in boxes of its own (rankup class grade)")
    grade_class()

    learners = [source.stem for source in sources]
    console.print()
    console.print(table(learners))
    pages = (CLASS / "feedback").relative_to(ROOT)
    console.print(f"\nFeedback with diagrams: {pages}/<who>/{ASSIGNMENT}/{NOTEBOOK}.html")
    console.print(f"What the class gets wrong: {(CLASS / 'overview').relative_to(ROOT)}/{ASSIGNMENT}.html")
    console.print(f"Gradebook: {(CLASS / 'gradebook.db').relative_to(ROOT)}   ({time.monotonic() - started:.0f} s)")


if __name__ == "__main__":
    main()
