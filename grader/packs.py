"""Which packs of exercises are installed, and where they are: without importing one. Uses nothing of the package.

A pack is a package whose folders are exercises. Its distribution names it under the entry point group
`rankup.exercises`:

    [project.entry-points."rankup.exercises"]
    mine = "my_package.exercises"

Packs are installed beside the grader, or with `pip install --target FOLDER` into folders that RANKUP_PACKS names.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path

GROUP = "rankup.exercises"
OURS = "grader.exercises"
FOLDERS = "RANKUP_PACKS"


class NoPack(Exception):  # noqa: N818 - says what is the case
    """A distribution names a pack that is not there."""


@cache
def names() -> tuple[str, ...]:
    """The packages that exercises are in, ours first."""
    there = filter(None, os.environ.get(FOLDERS, "").split(os.pathsep))
    sys.path += [folder for folder in there if folder not in sys.path]
    return tuple(dict.fromkeys((OURS, *sorted(point.value for point in entry_points(group=GROUP)))))


@cache
def folders(pack: str) -> tuple[Path, ...]:
    """Where a pack's exercises are. Raises NoPack."""
    try:
        spec = importlib.util.find_spec(pack)
    except ImportError as error:
        raise NoPack(f"the exercises of {pack} cannot be found: {error}") from None
    if spec is None or not spec.submodule_search_locations:
        raise NoPack(f"the exercises of {pack} cannot be found: it is not a package")
    return tuple(Path(root).resolve() for root in spec.submodule_search_locations)


def found(pack: str) -> tuple[Path, ...]:
    """Where a pack's exercises are; nothing for one that is not there."""
    try:
        return folders(pack)
    except NoPack:
        return ()


@cache
def answers() -> tuple[Path, ...]:
    """The folders that know what right means: the whole package that each pack is in. No box may see them."""
    hidden: list[Path] = []
    for pack in names():
        depth = pack.count(".")
        hidden += [folder.parents[depth - 1] if depth else folder for folder in found(pack)]
    return tuple(hidden)
