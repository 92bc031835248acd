"""`rankup class grade` as a teacher runs it, with real verdicts: interrupted, killed, and read by nbgrader."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import psutil
import pytest
from batch_class import ASSIGNMENT, NOTEBOOK, RIGHT, ROOT, WRONG, Class, empty, generate, released, settings, words

RANKUP = str(Path(sys.executable).parent / "rankup")
# learner, points, kinds of what they lost points to
GRADES = [
    ("ada", 20, []),
    ("bela", 20, []),
    ("chen", 16, ["too_many_bytes"]),
    ("dmitri", 0, ["deadlock"] * 7),
    ("grace", 17, ["wrong_result"]),
    ("judit", 0, ["syntax_error"] * 7),
]


def start(room: Class, *options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [RANKUP, "class", "grade", ASSIGNMENT, "--trust-submissions", *options],
        env={**os.environ, "RANKUP_CLASS": str(room.folder), "COLUMNS": "200"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )


def until(run: subprocess.Popen[str], line: str) -> None:
    """Read what a run says until a line begins so."""
    assert run.stdout is not None
    for said in run.stdout:
        if said.startswith(line):
            return
    raise AssertionError(f"it ended: {run.stderr.read() if run.stderr else ''}")


def stop(run: subprocess.Popen[str], how: signal.Signals) -> int:
    """Send it a signal; its status, once every process of it is gone."""
    below = psutil.Process(run.pid).children(recursive=True)
    assert len(below) >= 2, "there should be workers, and what they started"
    run.send_signal(how)
    run.communicate(timeout=60)
    _, alive = psutil.wait_procs(below, timeout=30)
    assert not alive, "a process was left"
    return run.returncode


def records(room: Class) -> dict[str, Any]:
    """The verdicts that are kept: everything that a grading would change."""
    found = {}
    for path in room.folder.glob(f"journal/{ASSIGNMENT}/*/{NOTEBOOK}.json"):
        record = json.loads(path.read_text())
        found[record["student"]] = (record["seconds"], record["worker"], record["verdict"])
    return found


def kinds(room: Class, learner: str) -> list[str]:
    checks = room.record(learner)["verdict"]["verdict"]["checks"]
    return [check["diagnosis"]["kind"] for check in checks if check["diagnosis"]]


@pytest.mark.heavy
def test_a_class_is_graded_in_three_runs_interrupted_killed_and_to_the_end(tmp_path: Path) -> None:
    """One test: each run takes up what the one before it left."""
    room = empty(tmp_path)
    for learner, _, _ in GRADES:
        room.hand_in(learner, (ROOT / "demo" / "submissions" / f"{learner}.py").read_text())

    run = start(room)
    until(run, "1 of 6")
    assert stop(run, signal.SIGINT) == 130
    first = records(room)

    run = start(room)
    until(run, "2 of ")  # the first may only be a page that the run before had not written yet
    assert stop(run, signal.SIGKILL) == -9
    second = records(room)

    run = start(room)
    said, error = run.communicate(timeout=300)
    assert (run.returncode, error) == (0, "")
    last = records(room)
    assert 1 <= len(first) < len(second) <= len(last) == len(GRADES)
    assert {student: last[student] for student in first} == first, "graded twice"
    assert {student: last[student] for student in second} == second, "graded twice"
    assert not list(room.folder.rglob("*.new")), "a half-written file was left"

    assert [(who, *room.score(who), kinds(room, who)) for who, _, _ in GRADES] == [
        (who, points, False, lost) for who, points, lost in GRADES
    ]
    assert all(room.page(who).read_text().startswith("<!doctype html>") for who, _, _ in GRADES)
    assert "6 of 6 graded: mean 12.2 of 20, median 16.5, 2 with all points" in words(said)
    assert "bytes 3/6 too_many_bytes 1, deadlock 1, syntax_error 1" in words(said)
    assert str(room.folder / "overview" / f"{ASSIGNMENT}.html") in said


@pytest.mark.filterwarnings("ignore")
def test_nbgrader_goes_on_from_there(tmp_path: Path) -> None:
    """Its formgrader sees the class, and it writes its own feedback from what was graded."""
    from nbgrader.apps import NbGraderAPI
    from nbgrader.converters import GenerateFeedback
    from nbgrader.coursedir import CourseDirectory

    room = empty(tmp_path)
    room.hand_in("ada", RIGHT)
    room.hand_in("bo", WRONG)
    assert room.grade() == (0, ["ada", "bo"])
    config = settings(tmp_path).config
    config.CourseDirectory.assignment_id = ASSIGNMENT
    config.CourseDirectory.feedback_directory = str(tmp_path / "again")
    coursedir = CourseDirectory(config=config)

    seen = {each["student"]: each for each in NbGraderAPI(coursedir).get_submissions(ASSIGNMENT)}
    assert {student: each["score"] for student, each in seen.items()} == {"ada": 20, "bo": 0}
    assert all(each["autograded"] and not each["needs_manual_grade"] for each in seen.values())

    GenerateFeedback(coursedir=coursedir, config=config).start()
    page = (tmp_path / "again" / "bo" / ASSIGNMENT / f"{NOTEBOOK}.html").read_text()
    assert "Deadlock: rank 0 waits for rank 1" in page
    assert "(Score: 0.0 / 20.0)" in page


@pytest.mark.heavy
@pytest.mark.filterwarnings("ignore")
def test_code_of_the_teachers_own_is_run_by_nbgrader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A graded cell with an assert beside the checks: it takes a kernel."""
    source = tmp_path / "source" / ASSIGNMENT / f"{NOTEBOOK}.ipynb"
    source.parent.mkdir(parents=True)
    notebook = nbformat.read(ROOT / "solutions" / ASSIGNMENT / f"{NOTEBOOK}.ipynb", as_version=4)
    marks = {"grade": True, "solution": False, "locked": True, "points": 5, "grade_id": "own", "schema_version": 3}
    own = nbformat.v4.new_code_cell("assert ring_all_reduce.__doc__", metadata={"nbgrader": {**marks, "task": False}})
    notebook.cells.insert(-1, own)
    nbformat.write(notebook, source)
    config = (ROOT / "nbgrader_config.py").read_text().replace("Path(__file__).parent", f"Path({str(ROOT)!r})")
    config += f"\nc.CourseDirectory.source_directory = {str(source.parent.parent)!r}\n"
    (tmp_path / "nbgrader_config.py").write_text(config)
    monkeypatch.chdir(tmp_path)
    generate(tmp_path)
    room = Class(tmp_path)
    handed = json.loads((tmp_path / "release" / ASSIGNMENT / f"{NOTEBOOK}.ipynb").read_text())
    assert len(handed["cells"]) == len(released()["cells"]) + 1
    solution = next(c for c in handed["cells"] if c["metadata"].get("nbgrader", {}).get("solution"))
    solution["source"] = (ROOT / "demo" / "submissions" / "chen.py").read_text()
    room.hand_in("chen", handed)
    assert room.grade() == (0, [])
    assert room.score("chen") == (21, False)
    assert "too_many_bytes" in (tmp_path / "overview" / f"{ASSIGNMENT}.html").read_text()
    written = room.graded("chen").stat().st_mtime_ns
    assert room.grade() == (0, [])
    assert room.graded("chen").stat().st_mtime_ns == written, "it was run again"
    room.page("chen").unlink()
    assert room.grade() == (0, [])
    assert room.page("chen").is_file()
