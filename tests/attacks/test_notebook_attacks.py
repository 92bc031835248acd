"""The notebooks that attack `nbgrader autograde` and `rankup class grade`: well-formed, and graded as one class."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbgrader.api import Gradebook
from notebooks import NotebookAttack, attacks, notebook
from often import by_day
from watch import Watch

from grader.sandbox import modes
from grader.submission import BadRequest

REPOSITORY = Path(__file__).parents[2]
ASSIGNMENT = "06-collectives"
RELEASED = REPOSITORY / "exercises" / ASSIGNMENT / "ring_all_reduce.ipynb"


@pytest.fixture(scope="module")
def released() -> Any:
    return nbformat.read(RELEASED, as_version=4)


def test_there_are_enough() -> None:
    assert len(attacks()) >= 20


@pytest.mark.parametrize("attack", attacks(), ids=lambda attack: attack.name)
def test_an_attack_makes_a_notebook(attack: NotebookAttack, released: Any) -> None:
    before = nbformat.writes(released)
    made = notebook(attack, released, {"TOKEN": "token", "CANARY": "/nowhere"})
    assert nbformat.writes(released) == before, "the released notebook was changed"
    assert nbformat.writes(made) != before
    assert attack.told.endswith(".")
    assert attack.tries in ("points", "harm")
    assert not any("@RING@" in cell.source or "@NAIVE@" in cell.source for cell in made.cells)


def test_an_attack_that_says_too_little_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.md"
    path.write_text("## x: Does it.\ntries: harm\n```python\n# %% solution\n```\n")
    with pytest.raises(BadRequest, match=r"'earned: \.\.\.' is missing"):
        attacks(path)


# ---- graded, as a class

LAST = "zz-honest"  # graded after all of them
DOORS = {
    "nbgrader": ("-m", "nbgrader", "autograde"),
    "rankup": ("-c", "from grader.cli import main; main()", "class", "grade", "--seed", "5"),
}


def python(room: Path, *arguments: str, status: tuple[int, ...] = (0,)) -> str:
    """What Python printed of these arguments, in the repository's folder and on a class of its own."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=REPOSITORY,
        env={**os.environ, "RANKUP_CLASS": str(room)},
        capture_output=True,
        text=True,
        timeout=1800,
    )
    assert done.returncode in status, done.stdout + done.stderr
    return done.stdout + done.stderr


def hand_in(room: Path, student: str, notebook: Any) -> None:
    path = room / "submitted" / student / ASSIGNMENT / RELEASED.name
    path.parent.mkdir(parents=True)
    nbformat.write(notebook, path)


def scores(room: Path) -> dict[str, float]:
    """Points by student, as the gradebook has them."""
    with Gradebook(f"sqlite:///{room / 'gradebook.db'}", "rankup") as book:
        return {found.student.id: found.score for found in book.notebook_submissions(RELEASED.stem, ASSIGNMENT)}


@pytest.mark.skipif(modes.mode() != "full", reason="strangers' notebooks are only run in full isolation")
@pytest.mark.parametrize("door", by_day(DOORS.keys(), 2))
def test_a_class_of_attackers_wins_nothing_and_harms_nobody(door: str, released: Any, tmp_path: Path) -> None:
    room, canary = tmp_path / "class", tmp_path / "canary"
    canary.mkdir()
    python(room, "-m", "nbgrader", "generate_assignment", ASSIGNMENT, "--force",
           f"--CourseDirectory.release_directory={room / 'release'}")  # fmt: skip
    tried = attacks()
    with Watch(canary) as watch:
        for attack in tried:
            hand_in(room, attack.name, notebook(attack, released, watch.words))
        honest = NotebookAttack(LAST, "", "", 20, True, (("solution", "", "@RING@"),))
        hand_in(room, LAST, notebook(honest, released))
        printed = python(room, *DOORS[door], ASSIGNMENT, status=(0, 1))
        if door == "nbgrader":
            printed += python(room, "-m", "nbgrader", "generate_feedback", ASSIGNMENT)
        shown = "".join(path.read_text() for path in (room / "feedback").rglob("*.html"))
        problems = watch.problems(shown + printed)
    problems += [
        f"there is no page of {attack.name}" for attack in tried if not (room / "feedback" / attack.name).exists()
    ]
    if "Traceback" in printed:
        problems.append("a traceback was printed")
    won = scores(room)
    for attack in (*tried, honest):
        if won[attack.name] > attack.earned:
            problems.append(f"{attack.name} has {won[attack.name]:g} points, and earned {attack.earned:g}")
        if attack.paid and won[attack.name] < attack.earned:
            problems.append(f"{attack.name} has only {won[attack.name]:g} points, and earned {attack.earned:g}")
    assert not problems, "\n- ".join(["", *problems, printed[-4000:]])
