"""Starts a worker as a fresh interpreter: `python start.py`, in the box.

What is in the folder of this package is not to be listed there, so that Python does not find its parts by itself.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

PACKAGE = Path(__file__).parent.parent


class Finder:
    """Finds this package, and the packages and modules in it, by their names."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        first, *rest = name.split(".")
        if first != PACKAGE.name or len(rest) > 1:
            return None
        folder = PACKAGE.joinpath(*rest)
        if not folder.is_dir():
            return importlib.util.spec_from_file_location(name, folder.with_suffix(".py"))
        return importlib.util.spec_from_file_location(
            name, folder / "__init__.py", submodule_search_locations=[str(folder)]
        )


if __name__ == "__main__":
    sys.meta_path.insert(0, Finder)
    from grader.jobs import host

    sys.exit(host.work())
