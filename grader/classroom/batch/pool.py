"""Who grades: what is asked of a pool of workers, and what comes back."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Protocol

from grader.verdict import Verdict

DEADLINE = 180.0  # seconds for one submission; a grading has limits of its own that end far sooner


@dataclass(frozen=True)
class Job:
    """One notebook of one learner, to be graded: plain data that can go to any process or machine.

    `source` is the text of the solution cell, `file` what messages call it. Student and notebook only name the job.
    """

    student: str
    notebook: str
    exercise: str
    source: str
    file: str
    seed: int
    deadline: float = DEADLINE

    def to_json(self) -> str:
        """One line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, line: str) -> Job:
        """The inverse of `to_json`."""
        return cls(**json.loads(line))


@dataclass(frozen=True)
class Done:
    """What came of a job: a verdict, or the reason why there is none. `worker` names who did it, for people."""

    job: Job
    verdict: Verdict | None
    problem: str = ""
    seconds: float = 0.0
    worker: str = ""


class Pool(Protocol):
    """Workers on this machine or on others.

    A worker that dies or hangs is replaced, and what it was grading is tried once more; after that the job is done with
    a `problem` and no verdict. Neither ever raises out of `results`.
    """

    @property
    def about(self) -> str:
        """Who works, for people: "4 workers"."""

    def start(self, jobs: int) -> None:
        """So many jobs will come: let workers get ready for them. Returns at once, and need not be called."""

    def results(self, jobs: Sequence[Job]) -> Iterator[Done]:
        """Every job's result exactly once, in the order in which they are ready. Work begins with the call."""

    def close(self) -> None:
        """End every worker at once, with all that it started. May be called twice, and while `results` is running."""
