"""Notebooks as learners hand them in: the released one with a solution in it, and those of learners who try more."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell

ROOT = Path(__file__).parent.parent.parent
ASSIGNMENT, NOTEBOOK = "06-collectives", "ring_all_reduce"
HONEST = ("bela", "dmitri", "judit")  # of those of demo/


def nbgrader(classroom: Path, *arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """An nbgrader command in the repository's folder, on a class of its own.

    The tests also run where boxes cannot be made, so whoever hands in is trusted.
    """
    return subprocess.run(
        [sys.executable, "-m", "nbgrader", *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, "RANKUP_CLASS": str(classroom), "RANKUP_TRUST_SUBMISSIONS": "1", **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )


def demo(learner: str) -> str:
    return (ROOT / "demo" / "submissions" / f"{learner}.py").read_text()


def solution(notebook: Any) -> Any:
    return next(cell for cell in notebook.cells if cell.metadata.get("nbgrader", {}).get("solution"))


def playground(notebook: Any) -> Any:
    """The cell in which learners try what they like."""
    return next(cell for cell in notebook.cells if cell.cell_type == "code" and "play(" in cell.source)


def forger(notebook: Any) -> None:
    """A wrong solution, and a kernel that says of itself that all is right, and looks for what it should not see."""
    solution(notebook).source = "def ring_all_reduce(tensor):\n    pass\n"
    playground(notebook).source = f"""
import glob, os, sys
import grader, grader.classroom.check as theirs

class Score(float):
    def __repr__(self):
        return "20.0"

theirs.check = grader.check = lambda *a, **k: Score(20)
theirs._client = type("Client", (), {{"alive": True, "grade": lambda *a, **k: None}})()
get_ipython().input_transformers_post.append(lambda lines: ["20.0\\n"])
sys.modules["grader.classroom.check"].Score = Score
for name in ({str(ROOT)!r}, {str(ROOT / "solutions")!r}, {str(Path.home())!r}):
    for path in glob.glob(name + "/*.ipynb") + glob.glob(name + "/*/*.ipynb") + glob.glob(name + "/.ssh/*"):
        print("LEAK", path)
"""
    forged = {"application/vnd.rankup.checks+json": [{"name": "sum", "points": 4}], "text/plain": "20.0"}
    notebook.cells.append(new_code_cell(f"from IPython.display import display\ndisplay({forged!r}, raw=True)"))
    notebook.cells.append(new_code_cell("20.0"))


def editor(notebook: Any) -> None:
    """chen's solution, with every mark in the notebook edited in the learner's favour, or broken."""
    solution(notebook).source = demo("chen")
    for number, cell in enumerate(notebook.cells):
        mark = cell.metadata.get("nbgrader")
        if mark and mark["grade"]:
            mark["points"], mark["schema_version"], mark["checksum"] = 200, 1, "0"
            cell.source = "20.0"
            cell.metadata["tags"] = ["skip-execution"]
        elif number % 2:
            cell.metadata["nbgrader"] = ["odd"]
    marks = [cell.metadata.nbgrader for cell in notebook.cells if "points" in cell.metadata.get("nbgrader", {})]
    gone = marks[0]["grade_id"], marks[-1]["grade_id"]
    notebook.cells = [cell for cell in notebook.cells if _name(cell) not in gone]
    notebook.cells.append(new_code_cell("pass", metadata={"nbgrader": {**marks[1], "grade_id": "mine", "points": 50}}))
    notebook.cells.append(new_code_cell("pass", metadata={"nbgrader": {**marks[2], "points": "all"}}))
    notebook.metadata.kernelspec = {"name": "sh", "display_name": "sh", "language": "bash"}


def _name(cell: Any) -> Any:
    mark = cell.metadata.get("nbgrader")
    return mark.get("grade_id") if isinstance(mark, dict) else None


INJECTED = "<script>window.injected = 1</script><img src=x onerror='injected()'><b>kept</b>"


def quitter(notebook: Any) -> None:
    """The right solution, in a notebook that writes scripts into its pages, and whose kernel then ends."""
    solution(notebook).source = demo("ada")
    show = "from IPython.display import HTML, Javascript, display"
    shown = playground(notebook)
    shown.source = f"{show}\ndisplay(HTML({INJECTED!r}), Javascript('injected()'))"
    # a cell of its own: a kernel that ends at once may take along what it was to show
    notebook.cells.insert(notebook.cells.index(shown) + 1, new_code_cell("import os\nos._exit(0)"))
    notebook.cells.append(new_markdown_cell(f"# Mine\n\n{INJECTED}\n\n[link](javascript:injected())"))


MORE: dict[str, Callable[[Any], None]] = {"forger": forger, "editor": editor, "quitter": quitter}


def hand_in(release: Path, submitted: Path, learner: str) -> None:
    """Put a learner's notebook where nbgrader looks for it."""
    notebook = nbformat.read(release / ASSIGNMENT / f"{NOTEBOOK}.ipynb", as_version=4)
    if learner in MORE:
        MORE[learner](notebook)
    else:
        solution(notebook).source = demo(learner)
    folder = submitted / learner / ASSIGNMENT
    folder.mkdir(parents=True)
    (folder / f"{NOTEBOOK}.ipynb").write_text(nbformat.v4.writes(notebook))
