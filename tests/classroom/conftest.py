"""What tests of the classroom share: a class that nbgrader has graded, once for all workers."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest
from hand_ins import ASSIGNMENT, HONEST, MORE, hand_in, nbgrader


@pytest.fixture(scope="session")
def classroom(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """A class in which the assignment was released, learners' work was graded, and feedback written."""
    base = tmp_path_factory.getbasetemp()
    folder = (base if worker_id == "master" else base.parent) / "class"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "graded").exists():
            _grade(folder)
            (folder / "graded").touch()
    return folder


def _grade(folder: Path) -> None:
    release = folder / "release"
    done = nbgrader(
        folder, "generate_assignment", ASSIGNMENT, "--force", f"--CourseDirectory.release_directory={release}"
    )
    assert done.returncode == 0, done.stderr
    for learner in (*HONEST, *MORE):
        hand_in(release, folder / "submitted", learner)
    for command in ("autograde", "generate_feedback"):
        done = nbgrader(folder, command, ASSIGNMENT)
        assert done.returncode == 0, done.stderr
        (folder / f"{command}.log").write_text(done.stderr)
