"""A folder as it is, and as it would be after a loss of power: what was not synced is gone.

The model: names outlast the loss (a journal keeps them in order, as ext4's does), the bytes of a file only as they
were at its last fsync; a file that was never synced is there and empty. What real file systems do is told by Pillai et
al. 2014 (*All File Systems Are Not Created Equal*, section 3).
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

Inode = tuple[int, int]  # the number of its file system, and its own there
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


def empty(folder: Path) -> None:
    """Remove everything in a folder."""
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


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
    """What of a folder is on the disk for good. Everything that is there at first is.

    `rooms` are other folders of the same processes: what is synced there can be moved into the folder.
    """

    folder: Path
    rooms: Sequence[Path] = ()
    synced: dict[Inode, bytes] = field(default_factory=dict)
    through: set[Inode] = field(default_factory=set)  # files of which all was synced, and each write since is a sync

    def __post_init__(self) -> None:
        self.sync()

    def holds(self, path: str) -> bool:
        """Whether a path is in the folder or in one of the rooms."""
        return any((path + "/").startswith(f"{room.resolve()}/") for room in (self.folder, *self.rooms))

    def sync(self, path: str | None = None) -> None:
        """A file has been synced, or all of them."""
        for each in [Path(path)] if path else self._paths():
            found = _content(each)
            if found is not None:
                inode, content = found
                self.synced[inode] = content

    def write(self, path: str, through: bool) -> None:
        """A file is about to be written to; `through`: when that returns, what was written is on the disk."""
        found = _content(Path(path))
        if found is None:
            return
        inode, content = found
        if inode in self.through and not through:
            self.synced[inode] = content
            self.through.discard(inode)
        elif through and content == self.synced.get(inode, b""):
            self.through.add(inode)

    def forget_the_deleted(self) -> None:
        """An inode's number is used again once its file is gone.

        Another rank may rename or delete while we look: what we then miss need not be gone, and nothing is forgotten.
        """
        try:
            there = {_inode(each.lstat()) for each in self._paths()}
        except FileNotFoundError:
            return
        self.synced = {inode: content for inode, content in self.synced.items() if inode in there}
        self.through &= there

    def _paths(self) -> list[Path]:
        """Of everything that is no folder."""
        tops = (self.folder, *self.rooms)
        return [Path(base, name) for top in tops for base, _, names in os.walk(top) for name in names]

    def after_a_power_cut(self) -> Files:
        files = read(self.folder)
        for inside, content in files.items():
            if isinstance(content, bytes):
                inode = _inode((self.folder / inside).stat())
                if inode not in self.through:
                    files[inside] = self.synced.get(inode, b"")
        return files


def _inode(status: os.stat_result) -> Inode:
    return status.st_dev, status.st_ino


def _content(path: Path) -> tuple[Inode, bytes] | None:
    """Of a file; None for what is none, and where another rank has renamed or deleted it meanwhile."""
    with contextlib.suppress(FileNotFoundError):
        if path.is_file() and not path.is_symlink():
            return _inode(path.stat()), path.read_bytes()
    return None
