"""The journal: one file for each notebook that was handed in, so that a run that was killed goes on where it stopped.

A record is written as soon as a verdict is there, and again when everything that follows from it (graded notebook,
gradebook, page) is written too. Whatever is missing at the next run is made from the record: nothing is graded twice.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from grader.verdict import Verdict

FORMAT = 1


@dataclass(frozen=True)
class Record:
    """What is known of one student's notebook.

    `submitted` is the SHA-256 of the file `file` (empty: there was none that could be read), `grader` stands for the
    version of what graded it, `verdict` is what the grading service said as `Verdict.report_json` has it, or None with
    the reason in `problem`; `odd` tells what was unusual. `points` are the service's, and nbgrader's where it ran the
    notebook. `missing` means that nothing was handed in: such a record is not kept. `written` names the gradebook that
    has it all.
    """

    student: str
    notebook: str
    submitted: str
    file: str
    grader: str
    seed: int
    timestamp: str = ""
    verdict: dict[str, Any] | None = None
    points: float | None = None
    problem: str = ""
    odd: tuple[str, ...] = ()
    missing: bool = False
    late: bool = False
    seconds: float = 0.0
    worker: str = ""
    written: str = ""

    @property
    def settled(self) -> bool:
        """Whether grading it again would tell nothing new."""
        return self.points is not None or self.missing

    def same(self, other: Record) -> bool:
        """Whether the other is about the same file, graded in the same way."""
        return (self.submitted, self.grader, self.seed) == (other.submitted, other.grader, other.seed)

    def judged(self, verdict: Verdict, seconds: float, worker: str) -> Record:
        """With a verdict that took so long, and who gave it."""
        data = json.loads(verdict.report_json())
        return replace(self, verdict=data, points=verdict.points, seconds=round(seconds, 3), worker=worker)

    def whole_verdict(self) -> Verdict | None:
        """The verdict with its pictures. Raises KeyError, TypeError or ValueError if it is none."""
        return None if self.verdict is None else Verdict.from_json(self.verdict["verdict"], self.verdict["extra"])

    def without_pictures(self) -> Record:
        """The same, much smaller."""
        if self.verdict is None:
            return self
        extra = [{**each, "diagram": None, "output": ""} for each in self.verdict["extra"]]
        return replace(self, verdict={**self.verdict, "extra": extra})


class Journal:
    """The records of one assignment, in a folder of the class's."""

    def __init__(self, folder: Path, assignment: str) -> None:
        self.folder = folder / "journal" / assignment

    def seed(self, wanted: int | None, anew: bool) -> int:
        """The one seed of the class: `wanted`, else what an earlier run drew unless all is to be graded `anew`."""
        path = self.folder / ".class.json"
        seed = wanted
        if seed is None and not anew:
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                seed = int(json.loads(path.read_bytes())["seed"])
        if seed is None:
            seed = random.SystemRandom().randrange(2**31)
        write_whole(path, json.dumps({"format": FORMAT, "seed": seed}).encode())
        return seed

    def read(self, student: str, notebook: str) -> Record | None:
        """The record, or None where there is none that can be understood."""
        try:
            data = json.loads(self._path(student, notebook).read_bytes())
            if data.pop("format") != FORMAT:
                return None
            record = Record(**{**data, "odd": tuple(data["odd"])})
            record.whole_verdict()
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None
        return record

    def sums(self, student: str) -> set[str]:
        """The SHA-256 of every file of the student's that there is a settled record of."""
        found = [self.read(student, path.stem) for path in (self.folder / student).glob("*.json")]
        return {record.submitted for record in found if record is not None and record.settled}

    def write(self, record: Record) -> None:
        """Keep it. Raises OSError."""
        data = json.dumps({"format": FORMAT, **asdict(record)}).encode()
        write_whole(self._path(record.student, record.notebook), data)

    def finish(self, record: Record, gradebook: str) -> Record:
        """Note that all that follows from the record is written. Raises OSError."""
        done = replace(record, written=gradebook)
        self.write(done)
        return done

    def _path(self, student: str, notebook: str) -> Path:
        return self.folder / student / f"{notebook}.json"


def write_whole(path: Path, data: bytes, mode: int = 0o644) -> None:
    """Write a file so that it is there whole or not at all, also after a crash. Raises OSError.

    Only one process writes in a class at a time, so the name for the meantime can be a fixed one.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.new")
    with contextlib.suppress(FileNotFoundError):
        beside.unlink()  # left by a run that was killed, perhaps without permission to write to it
    try:
        with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        beside.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise
