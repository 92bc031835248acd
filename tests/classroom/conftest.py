"""What tests of the classroom share: classes that nbgrader has graded, once for all workers."""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import pytest
from hand_ins import ASSIGNMENT, HONEST, MORE, hand_in, nbgrader


@pytest.fixture(scope="session")
def released(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """The folder of a class in which the assignment was released."""
    return _once(tmp_path_factory, worker_id, "released", _release)


@pytest.fixture(scope="session")
def classroom(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """A class in which the assignment was released, learners' work was graded, and feedback written."""
    return _once(tmp_path_factory, worker_id, "class", partial(_grade, learners=HONEST))


@pytest.fixture(scope="session")
def class_of_cheats(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """The same with learners who want more points than they earned."""
    return _once(tmp_path_factory, worker_id, "cheats", partial(_grade, learners=MORE))


def _once(factory: pytest.TempPathFactory, worker_id: str, name: str, make: Callable[[Path], None]) -> Path:
    base = factory.getbasetemp()
    folder = (base if worker_id == "master" else base.parent) / name
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "made").exists():
            make(folder)
            (folder / "made").touch()
    return folder


def _release(folder: Path) -> None:
    to = f"--CourseDirectory.release_directory={folder / 'release'}"
    done = nbgrader(folder, "generate_assignment", ASSIGNMENT, "--force", to)
    assert done.returncode == 0, done.stderr


def _grade(folder: Path, learners: Iterable[str]) -> None:
    _release(folder)
    for learner in learners:
        hand_in(folder / "release", folder / "submitted", learner)
    for command in ("autograde", "generate_feedback"):
        done = nbgrader(folder, command, ASSIGNMENT)
        assert done.returncode == 0, done.stderr
        (folder / f"{command}.log").write_text(done.stderr)
