"""What can go wrong with a run of nodes that is no verdict on what they answered: it ends, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grader.lost import Lost, Unable
from grader.verdict import Diagnosis

if TYPE_CHECKING:
    from grader.trace.gantt import Chart
    from grader.trace.story import Story

NotPlayed = Unable


class Trouble(Lost):
    """A run that cannot go on."""

    def __init__(self, diagnosis: Diagnosis, broke: bool = False) -> None:
        super().__init__(diagnosis, broke=broke)

    @property
    def story(self) -> Story | None:
        found: Story | None = self.picture
        return found

    @story.setter
    def story(self, story: Story | None) -> None:
        self.picture = story

    @property
    def chart(self) -> Chart | None:
        found: Chart | None = self.picture
        return found

    @chart.setter
    def chart(self, chart: Chart | None) -> None:
        self.picture = chart


class Violation(Trouble):
    """A property that does not hold."""
