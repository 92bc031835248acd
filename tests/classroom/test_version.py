"""What decides verdicts has a version: a change of it grades a class anew, a change of another exercise does not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import grader
from grader import registry
from grader.classroom import version

RAFT, DDP = registry.find("raft"), registry.find("ddp")
FILES = (
    *("exercise.py", "nodes/sim.py", "jobs/sparks/gate.py", "sandbox/host.py", "submission.py", "classroom/service.py"),
    *("exercises/common.py", "exercises/raft/__init__.py", "exercises/raft/judging.py", "exercises/ddp/__init__.py"),
    *("_data/c.py", "quiz/a.py", "classroom/pages/a.py", "d.txt"),
)
ALL = {"raft", "ddp", "the cluster's"}


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package that stands for this one."""
    for name in ("__init__.py", *FILES):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    monkeypatch.setattr(grader, "__file__", str(tmp_path / "__init__.py"))
    return tmp_path


def versions() -> dict[str, str]:
    fresh = version.version.__wrapped__
    return {"raft": fresh(RAFT), "ddp": fresh(DDP), "the cluster's": fresh()}


def append(path: Path) -> None:
    path.write_text(path.read_text() + "# x")


def rename(path: Path) -> None:
    path.rename(path.with_name("x.py"))


# what is done to which file, and whose version is another one then
CHANGES: dict[str, tuple[Callable[[Path], None], set[str]]] = {
    **dict.fromkeys(FILES[:7], (append, ALL)),
    "exercises/raft/__init__.py": (append, {"raft", "the cluster's"}),
    "exercises/raft/judging.py": (append, {"raft", "the cluster's"}),
    "exercises/ddp/__init__.py": (append, {"ddp", "the cluster's"}),
    **dict.fromkeys(FILES[10:], (append, set())),
    "nodes/sim.py ": (rename, ALL),
    "jobs/sparks/gate.py ": (Path.unlink, ALL),
}


@pytest.mark.parametrize("name", CHANGES)
def test_another_source_is_another_version_of_what_it_decides(package: Path, name: str) -> None:
    change, expected = CHANGES[name]
    before = versions()
    change(package / name.strip())
    assert {who for who, after in versions().items() if after != before[who]} == expected


def test_the_same_sources_have_one_version() -> None:
    assert version.version.__wrapped__(RAFT) == version.version(RAFT)


def test_a_packs_exercise_decides_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for part in ("raft", "common", "ddp"):
        (tmp_path / part).mkdir()
        (tmp_path / part / "__init__.py").touch()
    monkeypatch.setattr(version, "folders", lambda: {name: (name, tmp_path / name) for name in ("raft", "ddp")})
    for part, expected in (("raft", {"raft", "the cluster's"}), ("common", ALL)):
        before = versions()
        append(tmp_path / part / "__init__.py")
        assert {who for who, after in versions().items() if after != before[who]} == expected
