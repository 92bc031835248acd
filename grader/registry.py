"""Where exercises are found: in every pack that an installed distribution names, ours like anybody's.

A pack is a package whose folders are exercises. Its distribution names it under the entry point group
`rankup.exercises`:

    [project.entry-points."rankup.exercises"]
    mine = "my_package.exercises"
"""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path

from grader.exercise import Exercise
from grader.submission import BadRequest

GROUP = "rankup.exercises"
OURS = "grader.exercises"
SHARED = "common"  # a folder of a pack that is no exercise


@cache
def packs() -> tuple[str, ...]:
    """The packages that exercises are in, ours first."""
    return tuple(dict.fromkeys((OURS, *sorted(point.value for point in entry_points(group=GROUP)))))


@cache
def folders() -> dict[str, tuple[str, Path]]:
    """The module and the folder of every exercise, by name. Raises BadRequest where two packs have one of a name."""
    found: dict[str, tuple[str, Path]] = {}
    for pack in packs():
        for root in _roots(pack):
            for module in pkgutil.iter_modules([str(root)]):
                if not module.ispkg or module.name == SHARED:
                    continue
                if module.name in found:
                    other = found[module.name][0].rpartition(".")[0]
                    raise BadRequest(f"two packs have an exercise called {module.name}: {other} and {pack}")
                found[module.name] = f"{pack}.{module.name}", root / module.name
    return found


def _roots(pack: str) -> list[Path]:
    """The folders of a pack, without importing any of its exercises. Raises BadRequest if there is none."""
    try:
        spec = importlib.util.find_spec(pack)
    except ImportError as error:
        raise BadRequest(f"the exercises of {pack} cannot be found: {error}") from None
    if spec is None or not spec.submodule_search_locations:
        raise BadRequest(f"the exercises of {pack} cannot be found: it is no package")
    return [Path(root) for root in spec.submodule_search_locations]


def answers() -> list[Path]:
    """The folders that know what right means: no box may see them."""
    return [root for pack in packs() for root in _roots(pack)]


def names() -> list[str]:
    """The names of all exercises, by chapter."""
    return [exercise.name for exercise in catalogue()]


def catalogue() -> list[Exercise]:
    """Every exercise, by chapter and name."""
    return sorted((find(name) for name in folders()), key=lambda exercise: (exercise.chapter, exercise.name))


def find(name: str) -> Exercise:
    """The exercise called `name`. Raises BadRequest if there is none."""
    if name not in folders():
        raise BadRequest(f"no exercise is called {name!r}; there is {', '.join(names())}")
    found: Exercise = importlib.import_module(folders()[name][0]).EXERCISE
    return found


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
        raise BadRequest(f"{function} belongs to {which}: say which with exercise=...")
    return found[0]
