"""What the benches of all engines of jobs give to a check: its random numbers, and a diagnosis of this submission."""

from __future__ import annotations

import random

from grader.submission import Submission
from grader.verdict import Diagnosis, Kind


class Judging:
    """One submission and the seed of its grading."""

    def __init__(self, submission: Submission, seed: int) -> None:
        self._submission, self.seed = submission, seed

    def rng(self, label: str) -> random.Random:
        """Random numbers for one purpose: the same for the same seed of the grading."""
        return random.Random(f"{self.seed} {label}")

    def found(self, kind: Kind, message: str, expected: str = "", got: str = "", line: int | None = None) -> Diagnosis:
        """What a judge returns where something is wrong."""
        return Diagnosis(kind, message, None, self._submission.name, line, expected or None, got or None)
