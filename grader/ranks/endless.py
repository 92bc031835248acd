"""Ranks that go on and get nowhere: how often the same may happen before it is called endless. Without torch.

What is counted is exact, so that no verdict rests on a clock. Runs in the box, in simulated ranks and in real ones.
"""

from __future__ import annotations

from collections import deque

MOST_ASKED = 100_000  # times in a row that a rank may ask whether a request is completed
MOST_SLEPT, SLEPT_SECONDS = 10_000, 3_600.0  # times that it may sleep in a row, if that is more than so long in all
LONGEST_SLEEP = 86_400.0  # virtual seconds that it may sleep in a row, however often
MOST_REPEATED = 20_000  # operations in a row to which it may bring values that it has just brought
RANK_BITS = 16  # of the note of which rank runs: above them a count of the turns that simulated ranks took
LATEST_VALUES = 16  # of each place in the program that are remembered


class Endless(BaseException):
    """Raised in the learner's code where it goes on for ever; `except Exception` does not swallow it."""


class Series:
    """How often a rank has done the same since its last operation."""

    __slots__ = ("asked", "posted", "reads", "since", "slept")

    def __init__(self, posted: int, since: float) -> None:
        self.posted, self.since = posted, since
        self.asked = self.slept = self.reads = 0


class Repeats:
    """How many operations of one rank in a row brought only values which that place in the program brought lately."""

    def __init__(self) -> None:
        self.count = 0
        self._latest: dict[tuple[int, int, int], deque[int]] = {}

    def brought(self, place: tuple[int, int, int], value: int) -> None:
        """An operation at a place (line, kind, peer) carries data with this hash."""
        latest = self._latest.get(place)
        if latest is None:
            latest = self._latest[place] = deque(maxlen=LATEST_VALUES)
        if value in latest:
            self.count += 1
        else:
            self.count = 0
            latest.append(value)
