"""An interview in progress, on disk: a line of JSON for each finished task, so that no ending of the process loses one.

The file is locked while its interview lives. One that nobody holds was cut off: its interview is closed by the next.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from grader.quiz.deck import DeckError
from grader.quiz.interview.task import Done, Interview, interview_from, to_json


class Journal:
    """The journal of one interview, open and locked."""

    def __init__(self, file: Path, descriptor: int, interview: Interview) -> None:
        self._file, self._descriptor, self.interview = file, descriptor, interview

    def add(self, done: Done) -> None:
        """Keep a finished task, on disk, before anything else happens."""
        self.interview = replace(self.interview, done=(*self.interview.done, done))
        with _said(self._file):
            _append(self._descriptor, asdict(done))

    def close(self, *, remove: bool) -> None:
        """Let go of the journal; `remove` where its interview is kept elsewhere."""
        if remove:
            self._file.unlink(missing_ok=True)
        os.close(self._descriptor)


def begin(folder: Path, interview: Interview) -> Journal:
    """A new journal in `folder`. Raises DeckError if it cannot be written."""
    file = folder / f"{interview.key}.jsonl"
    beside = file.with_suffix(".new")  # nobody takes it for an abandoned one before it is locked
    with _said(file):
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(beside, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_APPEND, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            _append(descriptor, to_json(interview))
            beside.replace(file)
        except BaseException:
            os.close(descriptor)
            raise
    return Journal(file, descriptor, interview)


def abandoned(folder: Path) -> Iterator[Journal]:
    """The journals of interviews that were cut off, the oldest first; each is locked until it is closed."""
    for file in sorted(folder.glob("*.jsonl"), key=_changed):
        try:
            descriptor = os.open(file, os.O_RDWR | os.O_APPEND)
        except FileNotFoundError:  # another interview was quicker
            continue
        except OSError as error:
            raise DeckError(f"{file}: the interview cannot be read: {error.strerror}") from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:  # it lives
            os.close(descriptor)
            continue
        found = _read(file)
        if found is None or not file.exists():
            os.close(descriptor)
            if found is None:
                file.unlink(missing_ok=True)  # not even its first line was written
            continue
        yield Journal(file, descriptor, found)


def _changed(file: Path) -> float:
    try:
        return file.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _read(file: Path) -> Interview | None:
    """What was finished; a last line that was cut off counts for nothing."""
    lines: list[dict[str, Any]] = []
    for line in file.read_bytes().split(b"\n"):
        try:
            lines.append(json.loads(line))
        except ValueError:
            break
    try:
        ended = datetime.fromtimestamp(_changed(file), UTC).isoformat(timespec="seconds")
        return interview_from({**lines[0], "done": lines[1:], "ended": ended})
    except (IndexError, TypeError, ValueError):
        return None


def _append(descriptor: int, data: dict[str, Any]) -> None:
    line = json.dumps(data).encode() + b"\n"
    while line:
        line = line[os.write(descriptor, line) :]
    os.fsync(descriptor)


@contextmanager
def _said(file: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DeckError(f"{file}: the interview cannot be saved: {error.strerror}") from None
