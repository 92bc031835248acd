"""The phi accrual failure detector in numbers: what phi is, which series of heartbeats are drawn, what mistakes say.

Hayashibara, Defago, Yared, Katayama 2004, "The phi accrual failure detector", section 4. The logistic approximation of
the normal distribution's tail is that of Bowling et al. 2009, "A logistic approximation to the cumulative normal
distribution", which Akka uses.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

QUIET = 3.0  # the most that phi comes to in a series in which nobody may be suspected, where the threshold is 8


def normal(z: float) -> float:
    """phi by the normal distribution's tail, `z` standard deviations after the mean."""
    if z > 30:  # where the tail is no float any more
        return z * z / 2 / math.log(10) + math.log10(z * math.sqrt(2 * math.pi))
    return -math.log10(math.erfc(z / math.sqrt(2)) / 2)


def logistic(z: float) -> float:
    """phi by the logistic approximation."""
    slope = z * (1.5976 + 0.070566 * z * z)
    return (slope if slope > 500 else math.log1p(math.exp(max(slope, -500)))) / math.log(10)


@dataclass(frozen=True)
class Ask:
    """One question, and what must be said: alive or not, phi between two numbers; None and no bounds where all goes.

    `elapsed` is since the last heartbeat, `mean` and `spread` are of the intervals then in the window.
    """

    elapsed: float
    when: str
    alive: bool | None = None
    low: float = -math.inf
    high: float = math.inf
    mean: float = math.nan
    spread: float = math.nan
    detector: int = 0


@dataclass
class Script:
    """Heartbeats and questions, in order, of some detectors."""

    detectors: list[tuple[int, float]]
    offset: float = 0.0
    events: list[tuple[int, str, float]] = field(default_factory=list)
    asks: list[Ask] = field(default_factory=list)
    times: dict[int, list[float]] = field(default_factory=dict)

    def heartbeat(self, time: float, detector: int = 0) -> None:
        self.events.append((detector, "heartbeat", time + self.offset))
        self.times.setdefault(detector, []).append(time)

    def beat(self, times: Sequence[float], detector: int = 0) -> None:
        for time in times:
            self.heartbeat(float(time), detector)

    def ask(
        self, elapsed: float, when: str, alive: bool | None = None, detector: int = 0, low: float = -math.inf,
        high: float = math.inf,
    ) -> None:  # fmt: skip
        """Ask `elapsed` seconds after the last heartbeat (or the offset, if there was none)."""
        times = self.times.get(detector, [0.0])
        self.events.append((detector, "ask", times[-1] + elapsed + self.offset))
        intervals = np.diff(times)[-self.detectors[detector][0] :]
        mean, spread = (float(intervals.mean()), float(intervals.std())) if len(intervals) else (math.nan, math.nan)
        self.asks.append(Ask(elapsed, when, alive, low, high, mean, spread, detector))


def bounds(mean: float, spread: float, count: int, elapsed: float) -> tuple[float, float]:
    """Between which numbers phi must be: either tail, the spread of the window or of the population behind it."""
    spreads = (spread, spread * math.sqrt(count / (count - 1)))
    values = [tail((elapsed - mean) / one) for tail in (normal, logistic) for one in spreads]
    return 0.94 * min(values) - 0.03, 1.06 * max(values) + 0.03


def arrivals(generator: np.random.Generator, count: int, period: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Times of heartbeats that are sent every period and travel for up to 0.3 of it.

    The first gap is the longest there can be and the second the shortest, so that no later one is suspicious to who has
    seen but a few.
    """
    under_way = generator.uniform(0, 0.3, count)
    under_way[:3] = 0, 0.3, 0
    return np.asarray((np.arange(count) + under_way) * period)


def steady(
    draw: Callable[[], np.ndarray[tuple[int], np.dtype[np.float64]]], window: int
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """A series, drawn anew until no gap after a full window is suspicious by either tail."""
    while True:
        times = draw()
        gaps = np.diff(times)
        if all(_suspicion(gaps[place - window : place], gaps[place]) < QUIET for place in range(window, len(gaps))):
            return times


def _suspicion(intervals: np.ndarray[tuple[int], np.dtype[np.float64]], gap: float) -> float:
    z = (gap - float(intervals.mean())) / float(intervals.std())
    return max(normal(z), logistic(z))


def mistakes(ask: Ask) -> Iterator[tuple[float, str]]:
    """What phi would be by each usual mistake, and the sentence that names it."""
    mean, spread, elapsed = ask.mean, ask.spread, ask.elapsed
    if not spread > 0:
        return
    z = (elapsed - mean) / spread
    for tail in (normal, logistic):
        yield math.log(10) * tail(z), "All values match -ln of the tail probability. phi is -log10 of it."
        yield tail(-z), "All values match the probability that the heartbeat comes EARLIER. Use the tail beyond now."
        yield tail((elapsed - mean) / spread**2), "All values divide by the variance. Use the standard deviation."
        yield tail(elapsed / spread), "All values match a formula without the mean. Subtract the mean interval first."
    yield (
        elapsed / mean / math.log(10),
        "All values match the tail of an exponential distribution. This tail knows only the mean, and waits far too "
        "long for a regular node. Use the tail of the normal distribution.",
    )
    yield elapsed / mean, "All values match elapsed / mean. phi is -log10 of the probability of waiting this long."
