"""What a streaming query reads and writes, as its supervisor sees it: files, and nothing that the query says."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

SPARKS = frozenset(("offsets", "commits", "sources", "state", "metadata"))  # what a query itself keeps in a checkpoint


class Folders:
    """The query's input, output and checkpoint."""

    def __init__(self, root: Path) -> None:
        self.input, self.output, self.checkpoint = (root / name for name in ("input", "output", "checkpoint"))
        self._aside = root / "aside"
        for path in (self.input, self.output, self.checkpoint, self._aside):
            path.mkdir()
        self._age = time.time() - 20_000
        self._added: dict[str, str] = {}

    @property
    def paths(self) -> list[str]:
        return [str(path) for path in (self.input, self.output, self.checkpoint)]

    def add(self, name: str, text: str) -> None:
        """Put a file into the input, whole, and younger than all before."""
        path = self._aside / name
        path.write_text(text)
        self._age += 10
        os.utime(path, (self._age, self._age))
        path.rename(self.input / name)
        self._added[name] = text

    def changed(self) -> str:
        """The first file of the input that is not as it was put there, or one that was not put there; empty if none."""
        there = {path.name: path for path in self.input.rglob("*") if not path.is_dir()}
        for name, text in self._added.items():
            try:
                if there.pop(name).read_text() != text:
                    return name
            except (KeyError, OSError, UnicodeDecodeError):
                return name
        return next(iter(sorted(there)), "")

    def logs(self, name: str) -> list[Path]:
        """The folders "offsets" or "commits" of the checkpoint."""
        return [Path(at) / name for at, folders, _ in os.walk(self.checkpoint) if name in folders]

    def open(self, logs: list[Path]) -> int:
        """How many batches have their offsets written."""
        found = 0
        for log in logs:
            with contextlib.suppress(OSError):
                found += sum(name.isdecimal() for name in os.listdir(log))
        return found

    def uncommit(self) -> int:
        """Take back the newest commit: as a crash leaves it after the sink has written. Returns how many there were."""
        taken = 0
        for log in self.logs("commits"):
            numbers = [int(name) for name in os.listdir(log) if name.isdecimal()]
            if numbers:
                (log / str(max(numbers))).unlink()
                (log / f".{max(numbers)}.crc").unlink(missing_ok=True)
                taken += 1
        return taken

    def written(self) -> frozenset[tuple[str, int]]:
        """The output's files with their sizes, and those in the checkpoint that are not Spark's."""
        found = set()
        for root, skipped in ((self.output, frozenset()), (self.checkpoint, SPARKS)):
            for at, folders, files in os.walk(root):
                folders[:] = [name for name in folders if name not in skipped]
                found.add((at, 0))
                for name in files:
                    path = os.path.join(at, name)
                    with contextlib.suppress(OSError):
                        found.add((path, os.stat(path).st_size))
        return frozenset(each for each in found if not each[0].endswith("/metadata"))
