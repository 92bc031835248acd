"""Paths as learners' functions are given them: a text that can do what a path of pathlib's can."""

from __future__ import annotations

from pathlib import Path
from typing import Any


class Name(str):
    """A path as text, which also divides by `/` and has pathlib's attributes. Pickled, it is a plain text."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        return getattr(Path(str(self)), name)

    def __truediv__(self, name: str) -> Path:
        return Path(self) / name

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        return str, (str(self),)
