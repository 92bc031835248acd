"""Stands in for the module `ray` where ranks run a program that also has tasks of Ray, which nobody calls there.

To import Ray takes seconds in each process, and it cannot be imported once in the warm host: it keeps the environment
that it was imported in, and the Ray of a box needs its own. The host imports this module; `give_way` is for that Ray.
"""

from __future__ import annotations

import importlib.machinery
import sys
import types
from collections.abc import Sequence
from typing import Any

NAME = "ray"


class Anything:
    """Can be called, decorate, and be asked for attributes; it does nothing."""

    def __call__(self, *_: Any, **__: Any) -> Anything:
        return Anything()

    def __getattr__(self, name: str) -> Anything:
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything()


class _Absent(types.ModuleType):
    """The module, and each module in it."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__path__: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(Anything(), name)


class _Finder:
    """Finds modules below the one that stands in."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: Any = None) -> Any:
        if not name.startswith(f"{NAME}.") or not isinstance(sys.modules.get(NAME), _Absent):
            return None
        return importlib.machinery.ModuleSpec(name, _Finder())  # type: ignore[arg-type]

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return _Absent(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        pass


def stand_in() -> None:
    """Have `import ray` find this, unless it is there already."""
    if NAME not in sys.modules:
        sys.modules[NAME] = _Absent(NAME)
        sys.meta_path.insert(0, _Finder)


def give_way() -> None:
    """Have `import ray` find Ray."""
    for name in [name for name, module in sys.modules.items() if isinstance(module, _Absent)]:
        del sys.modules[name]


stand_in()
