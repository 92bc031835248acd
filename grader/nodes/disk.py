"""A node's disk as a process has it: a log of assignments in one file, each on the disk before it returns."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, MutableMapping
from pathlib import Path
from typing import Any


class Disk(MutableMapping[str, Any]):
    """Strings to JSON values. A value is copied when it is assigned and when it is read.

    Each assignment appends one line, [key, value] or [key], and fsyncs it. A line that a crash cut short is ignored:
    its assignment never returned. Raises TypeError for a key or a value that JSON has not, OSError if writing fails.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._values: dict[str, str] = {}
        with contextlib.suppress(FileNotFoundError):
            for line in path.read_bytes().split(b"\n")[:-1]:  # what follows the last newline was cut short
                self._replay(json.loads(line))
        self._compact()

    def __getitem__(self, key: str) -> Any:
        return json.loads(self._values[key])

    def __setitem__(self, key: str, value: Any) -> None:
        if not isinstance(key, str):
            raise TypeError(f"a key of the disk must be a string, not {key!r:.60}")
        try:
            text = json.dumps(value, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise TypeError(f"the disk holds JSON values, so {key!r} cannot be stored: {error}") from None
        self._append(f"[{json.dumps(key)}, {text}]")
        self._values[key] = text

    def __delitem__(self, key: str) -> None:
        if key not in self._values:
            raise KeyError(key)
        self._append(json.dumps([key]))
        del self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._values))

    def __len__(self) -> int:
        return len(self._values)

    def close(self) -> None:
        os.close(self._file)

    def _replay(self, entry: Any) -> None:
        match entry:
            case [key, value]:
                self._values[key] = json.dumps(value)
            case [key]:
                self._values.pop(key, None)

    def _append(self, line: str) -> None:
        data = line.encode() + b"\n"
        written = os.write(self._file, data)
        if written < len(data):  # the disk is full: what is there now would spoil the next line
            os.ftruncate(self._file, os.fstat(self._file).st_size - written)
            raise OSError(f"{self._path}: no room left")
        os.fsync(self._file)

    def _compact(self) -> None:
        """Write the file anew, with one line for each key, beside the old one until it is whole."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        fresh = self._path.with_suffix(".new")
        self._file = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o644)
        lines = [f"[{json.dumps(key)}, {text}]\n".encode() for key, text in self._values.items()]
        with open(self._file, "wb", closefd=False) as file:
            file.write(b"".join(lines))
        os.fsync(self._file)
        os.replace(fresh, self._path)
        folder = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
