"""What decides a verdict: it is another version where a source of the grading, or of the exercise, is another one."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib import metadata
from pathlib import Path

import grader
from grader.exercise import Exercise
from grader.registry import SHARED, folders

# what decides nothing
APART = {"_data", "quiz", "standing", "pages", "cli", "cli_nodes", "cli_quiz", "doctor", "progress", "reading"}


@cache
def version(exercise: Exercise | None = None) -> str:
    """Of what decides an exercise's verdicts, or those of all, for people and to be compared: releases, and the sum of
    the sources."""
    package = Path(grader.__file__).parent
    others = set() if exercise is None else {*folders()} - {exercise.name}
    sources = {
        str(path.relative_to(package)): path for path in package.rglob("*.py") if _decides(path, package, others)
    }
    for name, (_, folder) in folders().items():
        for part in (folder, folder.parent / SHARED) if name not in others and package not in folder.parents else ():
            sources |= {f"{name}/{path.relative_to(folder.parent)}": path for path in part.rglob("*.py")}
    total = hashlib.sha256()
    for name, path in sorted(sources.items()):
        total.update(f"{name}\0{path.stat().st_size}\0".encode())
        total.update(path.read_bytes())
    return f"rankup {_release('rankup')} ({total.hexdigest()[:12]}), torch {_release('torch')}"


def _decides(path: Path, package: Path, others: set[str]) -> bool:
    """Whether a source of the package has a part in verdicts other than those on `others`."""
    parts = path.relative_to(package).with_suffix("").parts
    return APART.isdisjoint(parts[:2]) and not (parts[0] == "exercises" and parts[1] in others)


def _release(name: str) -> str:
    """The release of a package, whichever hardware it is built for."""
    try:
        return metadata.version(name).partition("+")[0]
    except metadata.PackageNotFoundError:  # a checkout that nobody installed
        return "without a version"
