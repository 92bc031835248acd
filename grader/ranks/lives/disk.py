"""A folder as it is, and as it would be after a loss of power: what was not synced is gone.

The model: names outlast the loss (a journal keeps them in order, as ext4's does), the bytes of a file only as they
were at its last fsync; a file that was never synced is there and empty. What real file systems do is told by Pillai et
al. 2014 (*All File Systems Are Not Created Equal*, section 3).
"""

from __future__ import annotations

import contextlib
import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path

Files = dict[str, bytes | str | None]  # by relative path: a file's bytes, a link's target, None for a folder


def read(folder: Path) -> Files:
    """Everything in a folder; nothing where there is none."""
    found: Files = {}
    for base, folders, names in os.walk(folder):
        for name in (*folders, *names):
            path = Path(base, name)
            inside = str(path.relative_to(folder))
            if path.is_symlink():
                found[inside] = os.readlink(path)
            elif path.is_dir():
                found[inside] = None
            elif path.is_file():
                found[inside] = path.read_bytes()
    return found


def write(folder: Path, files: Files) -> None:
    """Make a folder hold exactly this."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for inside, content in files.items():
        path = folder / inside
        if content is None:
            path.mkdir(parents=True, exist_ok=True)
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, str):
            path.symlink_to(content)
        else:
            path.write_bytes(content)


@dataclass
class Disk:
    """What of a folder is on the disk for good. Everything that is there at first is."""

    folder: Path
    synced: dict[int, bytes] = field(default_factory=dict)  # by inode
    through: bool = False  # files are opened such that every write is a sync

    def __post_init__(self) -> None:
        self.sync()

    def sync(self, path: str | None = None) -> None:
        """A file has been synced, or all of them."""
        for each in [Path(path)] if path else list(self.folder.rglob("*")):
            with contextlib.suppress(FileNotFoundError):  # renamed or deleted by another rank meanwhile
                if each.is_file() and not each.is_symlink():
                    self.synced[each.stat().st_ino] = each.read_bytes()

    def forget_the_deleted(self) -> None:
        """An inode's number is used again once its file is gone.

        Another rank may rename or delete while we look: what we then miss need not be gone, and nothing is forgotten.
        """
        try:
            paths = [Path(base, name) for base, _, names in os.walk(self.folder) for name in names]
            there = {each.lstat().st_ino for each in paths}
        except FileNotFoundError:
            return
        self.synced = {inode: content for inode, content in self.synced.items() if inode in there}

    def after_a_power_cut(self) -> Files:
        files = read(self.folder)
        for inside, content in files.items() if not self.through else ():
            if isinstance(content, bytes):
                files[inside] = self.synced.get((self.folder / inside).stat().st_ino, b"")
        return files
