"""What can go wrong with a run of nodes that is no verdict on what they answered: it ends, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from grader.verdict import Diagnosis

if TYPE_CHECKING:
    from grader.trace.gantt import Chart
    from grader.trace.story import Story


class Trouble(Exception):  # noqa: N818 - carries the diagnosis that ends the run
    """A run that cannot go on. `story` is what had happened, once it is known; `broke` is whether the nodes' process
    is of no use any more."""

    def __init__(self, diagnosis: Diagnosis, broke: bool = False) -> None:
        super().__init__(diagnosis.message)
        self.diagnosis, self.broke = diagnosis, broke
        self.story: Story | None = None
        self.chart: Chart | None = None  # of a job
        self.schedule: dict[str, Any] | None = None  # what shows it, as small as it could be made, to be played again


class NotPlayed(Exception):  # noqa: N818 - says what is the case
    """A kept schedule does not fit the submission that it is to be played against, and why."""


class Violation(Trouble):
    """A property that does not hold: found by a check while nodes were run."""
