"""`rankup class grade` as a teacher runs it, with real verdicts: interrupted, killed, and read by nbgrader."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
from batch_class import ASSIGNMENT, NOTEBOOK, ROOT, Class, empty, released, settings, words

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


@dataclass
class Story:
    """One class, graded in three runs: interrupted after a submission, killed after another one, and to the end."""

    room: Class
    interrupted: int
    killed: int
    kept: Sequence[dict[str, Any]]
    last: tuple[int, str, str]


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    room = empty(tmp_path_factory.mktemp("real-class"))
    for learner, _, _ in GRADES:
        room.hand_in(learner, (ROOT / "demo" / "submissions" / f"{learner}.py").read_text())
    run = start(room)
    until(run, "1 of 6")
    interrupted = stop(run, signal.SIGINT)
    kept = [records(room)]
    run = start(room)
    until(run, "1 of ")
    killed = stop(run, signal.SIGKILL)
    kept.append(records(room))
    run = start(room)
    last = run.communicate(timeout=300)
    return Story(room, interrupted, killed, kept, (run.returncode, *last))


def test_what_was_graded_is_kept_and_not_graded_again(story: Story) -> None:
    assert (story.interrupted, story.killed, story.last[0]) == (130, -9, 0), story.last
    final = records(story.room)
    first, second = story.kept
    assert 1 <= len(first) < len(second) <= len(final) == len(GRADES)
    assert {student: final[student] for student in first} == first
    assert {student: final[student] for student in second} == second


@pytest.mark.parametrize(("learner", "points", "kinds"), GRADES, ids=[grade[0] for grade in GRADES])
def test_points_and_reasons(story: Story, learner: str, points: float, kinds: list[str]) -> None:
    assert story.room.score(learner) == (points, False)
    record = story.room.record(learner)
    checks = record["verdict"]["verdict"]["checks"]
    assert [check["diagnosis"]["kind"] for check in checks if check["diagnosis"]] == kinds
    assert story.room.page(learner).read_text().startswith("<!doctype html>")


def test_what_is_said_at_the_end(story: Story) -> None:
    said = words(story.last[1])
    assert "6 of 6 graded: mean 12.2 of 20, median 16.5, 2 with all points" in said
    assert "bytes 3/6 too_many_bytes 1, deadlock 1, syntax_error 1" in said
    assert str(story.room.folder / "overview" / f"{ASSIGNMENT}.html") in said
    assert story.last[2] == ""


def test_nothing_is_left_behind(story: Story) -> None:
    assert not list(story.room.folder.rglob("*.new"))


@pytest.fixture(scope="module")
def coursedir(story: Story) -> Any:
    """nbgrader's own view of the class."""
    from nbgrader.coursedir import CourseDirectory

    place = settings(story.room.folder)
    place.config.CourseDirectory.assignment_id = ASSIGNMENT
    return CourseDirectory(config=place.config)


@pytest.mark.filterwarnings("ignore")
def test_nbgrader_writes_its_feedback_from_what_was_graded(story: Story, coursedir: Any, tmp_path: Path) -> None:
    from nbgrader.converters import GenerateFeedback

    before, coursedir.feedback_directory = coursedir.feedback_directory, str(tmp_path)
    GenerateFeedback(coursedir=coursedir, config=coursedir.config).start()
    coursedir.feedback_directory = before
    page = (tmp_path / "chen" / ASSIGNMENT / f"{NOTEBOOK}.html").read_text()
    assert "too_many_bytes" in page
    assert "(Score: 16.0 / 20.0)" in page


@pytest.mark.filterwarnings("ignore")
def test_formgrader_sees_the_class(coursedir: Any) -> None:
    from nbgrader.apps import NbGraderAPI

    seen = {each["student"]: each for each in NbGraderAPI(coursedir).get_submissions(ASSIGNMENT)}
    assert {student: each["score"] for student, each in seen.items()} == {who: points for who, points, _ in GRADES}
    assert all(each["autograded"] and not each["needs_manual_grade"] for each in seen.values())


@pytest.mark.filterwarnings("ignore")
def test_code_of_the_teachers_own_is_run_by_nbgrader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A graded cell with an assert beside the checks: it takes a kernel."""
    import nbformat
    from batch_class import generate

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
    for path in (room.graded("chen"), room.page("chen")):
        written = path.stat().st_mtime_ns
        assert room.grade() == (0, [])
        assert path.stat().st_mtime_ns == written, "it was run again"
        path.unlink()
        assert room.grade() == (0, [])
        assert path.is_file()
