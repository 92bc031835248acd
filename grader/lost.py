"""How a check ends that gives no points: Lost, because of what the submission did, or Unable, because of what is here.

Plain exceptions that every engine may raise; imports nothing of the package but `verdict`.
"""

from __future__ import annotations

from typing import Any

from grader.verdict import Diagnosis, Kind


class Lost(Exception):  # noqa: N818 - reads as what happened to the points
    """Points are lost, and why.

    `picture` is the run that shows it (an Outcome, a Story or a Chart), `schedule` the same run as data, as small as it
    could be made, to be played again. `broke` is whether the processes that it happened in are of no use any more.
    """

    def __init__(
        self, diagnosis: Diagnosis, picture: Any = None, schedule: dict[str, Any] | None = None, broke: bool = False
    ) -> None:
        super().__init__(diagnosis.message)
        self.diagnosis, self.picture, self.schedule, self.broke = diagnosis, picture, schedule, broke

    @classmethod
    def because(
        cls, kind: Kind, message: str, *, file: str, rank: int | None = None, line: int | None = None,
        expected: str = "", got: str = "", picture: Any = None, broke: bool = False,
    ) -> Lost:  # fmt: skip
        """Lost for one reason: its kind, a sentence, and where."""
        return cls(Diagnosis(kind, message, rank, file, line, expected or None, got or None), picture, None, broke)


class Unable(Exception):  # noqa: N818 - says what is the case
    """What a check is about cannot be judged here, and why: no points."""
