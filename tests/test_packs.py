"""A pack of exercises from outside: installed, listed, graded by every road, and its answers out of the box's sight."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from nbgrader.api import Gradebook

from grader import packs, registry
from grader.sandbox import modes
from grader.submission import BadRequest

ROOT = Path(__file__).parent.parent
PACK, NAME, POINTS = ROOT / "demo" / "pack", "dissemination_barrier", 5
EXERCISE = PACK / "barriers" / "exercises" / NAME
RIGHT = EXERCISE / "right" / "by_powers.py"
STEALS = """
import pathlib


def dissemination_barrier():
    seen = [*pathlib.Path("@TARGET@").rglob("dissemination_barrier*")]
    raise RuntimeError(f"seen: {len(seen)} files")
"""


@pytest.fixture(scope="module")
def installed() -> Iterator[Path]:
    """The pack, installed into a folder among the interpreter's own, which boxes see."""
    target = Path(tempfile.mkdtemp(prefix="packs-", dir=sys.prefix))
    try:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
        made = subprocess.run(
            [*pip, "--no-build-isolation", "--target", str(target), str(PACK)], capture_output=True, text=True
        )
        assert made.returncode == 0, made.stderr
        yield target
    finally:
        shutil.rmtree(target)


def run(installed: Path, *command: str | Path, cwd: Path = ROOT, **more: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, packs.FOLDERS: str(installed), "RANKUP_TRUST_SUBMISSIONS": "1", **more}
    return subprocess.run(list(map(str, command)), cwd=cwd, env=environment, capture_output=True, text=True)


def rankup(installed: Path, *arguments: str | Path, **more: str) -> subprocess.CompletedProcess[str]:
    return run(installed, sys.executable, "-m", "grader.cli", *arguments, **more)


@pytest.mark.heavy
def test_a_pack_is_listed_started_and_graded_as_ours(installed: Path, tmp_path: Path) -> None:
    listed = json.loads(rankup(installed, "list", "--json").stdout)
    assert NAME in json.dumps(listed)
    done = rankup(installed, "grade", NAME, RIGHT, "--json", "--seed", "1")
    assert (done.returncode, json.loads(done.stdout)["points"]) == (0, POINTS), done.stderr
    started = run(installed, sys.executable, "-m", "grader.cli", "start", NAME, cwd=tmp_path)
    assert started.returncode == 0, started.stderr
    assert (tmp_path / "work" / NAME / f"{NAME}.ipynb").is_file()


@pytest.mark.heavy
@pytest.mark.skipif(modes.mode() != "full", reason="without full isolation a box sees what its user sees")
def test_the_answers_of_a_pack_cannot_be_read_in_a_box(installed: Path, tmp_path: Path) -> None:
    thief = tmp_path / "thief.py"
    thief.write_text(STEALS.replace("@TARGET@", str(installed)))
    done = rankup(installed, "grade", NAME, thief, "--json", "--seed", "1")
    said = json.loads(done.stdout)
    assert said["points"] == 0
    assert "seen: 0 files" in said["checks"][0]["diagnosis"]["message"], said["checks"][0]


@pytest.mark.heavy
def test_a_notebook_of_a_pack_asks_the_grading_service(installed: Path, tmp_path: Path) -> None:
    notebook = tmp_path / "solution.ipynb"
    shutil.copy(EXERCISE / "solution.ipynb", notebook)
    done = run(
        installed, sys.executable, "-m", "nbconvert", "--to", "notebook", "--execute", "--inplace", notebook,
        cwd=tmp_path, PYTHONPATH=str(ROOT),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    texts = [
        output["data"]["text/plain"]
        for cell in nbformat.read(notebook, as_version=4).cells
        for output in cell.get("outputs", [])
        if "check(" in cell.source and output["output_type"] == "execute_result"
    ]
    assert [float(text) for text in texts] == [3, 2]


def teacher(installed: Path, classroom: Path, *command: str) -> None:
    """A command that a teacher gives in the class's folder."""
    python = [sys.executable, "-m", *command]
    done = run(installed, *python, cwd=classroom, PYTHONPATH=str(ROOT), RANKUP_CLASS=str(classroom))
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def assignment(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A teacher's folder: the pack's notebook as an assignment, and what two learners handed in."""
    tmp_path = tmp_path_factory.mktemp("class")
    config = f"""
import os
load_subconfig("nbgrader_config.py", path={str(ROOT)!r})
c.CourseDirectory.root = os.getcwd()
c.CourseDirectory.source_directory = "source"
c.CourseDirectory.release_directory = "release"
"""
    (tmp_path / "nbgrader_config.py").write_text(config)
    (tmp_path / "source" / "barriers").mkdir(parents=True)
    shutil.copy(EXERCISE / "solution.ipynb", tmp_path / "source" / "barriers" / f"{NAME}.ipynb")
    for learner, solved in (("ada", True), ("bela", False)):
        notebook = nbformat.read(EXERCISE / f"{NAME}.ipynb", as_version=4)
        if solved:
            notebook.cells[1].source = RIGHT.read_text()
        handed_in = tmp_path / "submitted" / learner / "barriers" / f"{NAME}.ipynb"
        handed_in.parent.mkdir(parents=True)
        nbformat.write(notebook, handed_in)
    teacher(installed, tmp_path, "nbgrader", "generate_assignment", "barriers")
    return tmp_path


@pytest.mark.heavy
@pytest.mark.parametrize(
    "road",
    [
        ("nbgrader", "autograde", "barriers", "--create"),
        ("grader.cli", "class", "grade", "barriers", "--trust-submissions"),
    ],
    ids=["nbgrader autograde", "rankup class grade"],
)
def test_a_class_is_graded_on_a_pack(installed: Path, assignment: Path, road: tuple[str, ...], tmp_path: Path) -> None:
    classroom = shutil.copytree(assignment, tmp_path / "class")
    teacher(installed, classroom, *road)
    with Gradebook(f"sqlite:///{classroom / 'gradebook.db'}", "rankup") as book:
        points = {who: book.find_submission("barriers", who).score for who in ("ada", "bela")}
    assert points == {"ada": POINTS, "bela": 0}


def test_a_pack_that_is_named_and_not_there_is_told_in_a_sentence() -> None:
    with pytest.raises(packs.NoPack, match=r"the exercises of nobody\.here cannot be found"):
        packs.folders("nobody.here")
    with pytest.raises(BadRequest, match="no exercise is called 'nobody'"):
        registry.find("nobody")
