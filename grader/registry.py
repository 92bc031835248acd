"""The exercises of all packs: ours like anybody's (see `packs`)."""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from functools import cache
from pathlib import Path

from grader import packs
from grader.exercise import Exercise
from grader.submission import BadRequest

SHARED = "common"  # a folder of a pack that is no exercise


@cache
def folders() -> dict[str, tuple[str, Path]]:
    """The module and the folder of every exercise, by name. Raises BadRequest for a pack that is not there, and where
    two packs have an exercise of one name."""
    found: dict[str, tuple[str, Path]] = {}
    for pack in packs.names():
        for name, folder in _exercises(pack):
            if name in found:
                other = found[name][0].rpartition(".")[0]
                raise BadRequest(f"two packs have an exercise called {name}: {other} and {pack}; uninstall one of them")
            found[name] = f"{pack}.{name}", folder
    return found


def _exercises(pack: str) -> list[tuple[str, Path]]:
    try:
        roots = packs.folders(pack)
    except packs.NoPack as error:
        raise BadRequest(str(error)) from None
    modules = [(root, module) for root in roots for module in pkgutil.iter_modules([str(root)])]
    return [(module.name, root / module.name) for root, module in modules if module.ispkg and module.name != SHARED]


def names() -> list[str]:
    """The names of all exercises, by chapter."""
    return [exercise.name for exercise in catalogue()]


def catalogue() -> list[Exercise]:
    """Every exercise, by chapter and name."""
    return sorted((find(name) for name in folders()), key=lambda exercise: (exercise.chapter, exercise.name))


def find(name: str) -> Exercise:
    """The exercise called `name`. Raises BadRequest if there is none."""
    if name not in folders():
        raise BadRequest(f"no exercise is called {name!r}; {near(name)}")
    found: Exercise = importlib.import_module(folders()[name][0]).EXERCISE
    return found


def near(name: str) -> str:
    """ "did you mean ring_all_reduce?" where an exercise is called nearly so; otherwise what shows their names."""
    found = difflib.get_close_matches(name.lower(), folders(), n=1)
    return f"did you mean {found[0]}?" if found else "`rankup list` shows them"


def folder(name: str) -> Path:
    """Where all of an exercise is. Raises BadRequest if there is none of that name."""
    find(name)
    return folders()[name][1]


def owner(function: str) -> Exercise:
    """The exercise of that name, or else the one that has a function so called. Raises BadRequest."""
    found = [exercise for exercise in catalogue() if function in exercise.function_names]
    if function in names() or not found:
        return find(function)
    if len(found) > 1:
        which = " and ".join(exercise.name for exercise in found)
        raise BadRequest(f"{function} belongs to {which}: name one of them with exercise=...")
    return found[0]
