"""What learners handed in: found and read as what it is, the files of strangers.

No link is followed, nothing but a regular file is opened, and of a notebook only the text of its cells is kept.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from grader.submission import Cell, Unreadable, parse

MOST_BYTES = 100_000_000  # of a notebook, outputs and all: nbgrader takes no larger file either
MOST_FILES = 200
_LONGEST_NAME = 240  # of what is passed on, in bytes: it is written under a longer one first
_TIMESTAMP = "timestamp.txt"


@dataclass(frozen=True)
class Handed:
    """What one student handed in for an assignment. `sums` holds the SHA-256 of each notebook, by its file's name.

    A file that cannot be read at all has an empty sum. `problem` says why the whole folder cannot be read.
    """

    student: str
    folder: Path
    sums: dict[str, str]
    timestamp: str = ""
    problem: str = ""


def find(submitted: Path, assignment: str, excluded: frozenset[str] = frozenset()) -> list[Handed]:
    """Everybody who handed in something for the assignment, by name. Raises OSError if `submitted` cannot be read."""
    found = []
    for student in sorted(os.listdir(submitted)):
        folder = submitted / student / assignment
        if not student.startswith(".") and student not in excluded and os.path.lexists(folder):
            found.append(_handed(student, folder))
    return found


def _handed(student: str, folder: Path) -> Handed:
    try:
        student.encode()
    except UnicodeEncodeError:
        return Handed(student, folder, {}, problem="the folder's name is not UTF-8 text")
    try:
        with _folder(folder) as place:
            names = sorted(os.listdir(place))
            notebooks = [name for name in names if name.endswith(".ipynb")]
            sums = {name: _sum(place, name) for name in notebooks[:MOST_FILES]}
            timestamp = _timestamp(place) if _TIMESTAMP in names else ""
    except Unreadable as error:
        return Handed(student, folder, {}, problem=f"the folder {error}")
    return Handed(student, folder, sums, timestamp)


def _timestamp(place: int) -> str:
    try:
        return _bytes(place, _TIMESTAMP, 1000).decode("utf-8", errors="replace").strip()
    except Unreadable:
        return ""


def _sum(place: int, name: str) -> str:
    try:
        return hashlib.sha256(_bytes(place, name, MOST_BYTES)).hexdigest()
    except Unreadable:
        return ""


def read(folder: Path, name: str) -> tuple[str, list[Cell], list[str]]:
    """A notebook's SHA-256, its cells, and what is odd about it. Raises Unreadable, which may know the sum too."""
    with _folder(folder) as place:
        data = _bytes(place, name, MOST_BYTES)
    cells, odd = parse(data)
    return hashlib.sha256(data).hexdigest(), cells, odd


class _folder:  # noqa: N801 - used like a function
    """An open folder, without following a link to it from the student's folder on."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> int:
        student = _opened(self._path.parent, None, os.O_DIRECTORY)
        try:
            self._fd = _opened(self._path.name, student, os.O_DIRECTORY)
        finally:
            os.close(student)
        return self._fd

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)


def _bytes(place: int, name: str, most: int) -> bytes:
    """What is in a regular file. Raises Unreadable."""
    fd = _opened(name, place, os.O_NONBLOCK)  # a pipe without a writer would block for ever
    try:
        about = os.fstat(fd)
        if not stat.S_ISREG(about.st_mode):
            raise Unreadable("is a folder" if stat.S_ISDIR(about.st_mode) else "is not a regular file")
        if about.st_size > most:
            raise Unreadable(f"has {about.st_size / 1e6:.0f} MB, and at most {most / 1e6:.0f} MB are read")
        with open(fd, "rb", closefd=False) as file:
            return file.read(most)
    except OSError as error:
        raise Unreadable(f"cannot be read ({error.strerror})") from None
    finally:
        os.close(fd)


def _opened(name: str | Path, place: int | None, flags: int) -> int:
    try:
        return os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | flags, dir_fd=place)
    except OSError as error:
        if _is_link(name, place):
            raise Unreadable("is a link, and links are not followed") from None
        if error.errno == errno.ENOENT:
            raise Unreadable("does not exist") from None
        raise Unreadable(f"cannot be read ({error.strerror})") from None


def _is_link(name: str | Path, place: int | None) -> bool:
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=place, follow_symlinks=False).st_mode)
    except OSError:
        return False


def others(handed: Handed, most_bytes: int = 20_000_000) -> Iterator[tuple[str, bytes]]:
    """The files beside the notebooks, which nbgrader passes on: name and bytes. What cannot be read is left out."""
    left = most_bytes
    try:
        with _folder(handed.folder) as place:
            for name in sorted(os.listdir(place))[:MOST_FILES]:
                if name.endswith(".ipynb") or name.startswith(".") or len(os.fsencode(name)) > _LONGEST_NAME:
                    continue
                try:
                    data = _bytes(place, name, left)
                except Unreadable:
                    continue
                left -= len(data)
                yield name, data
    except Unreadable:
        return
