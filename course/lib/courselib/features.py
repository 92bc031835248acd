"""A small stream of events, late and doubled as real ones are, and three ways to count it in windows.

    events = delivered(users=50, count=20_000, seed=1)
    streamed(events, width=600, watermark=900).counts == batch(events, width=600)

An event has its own time (`at`) and the time at which it comes (`came`), in seconds. Windows are by `at`.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


class Event(NamedTuple):
    """Something that a user did; two deliveries of the same event have the same id."""

    id: int
    user: int
    at: float
    came: float


Window = tuple[int, int]  # user, number of the window


def delivered(users: int, count: int, seed: int, *, days: float = 1.0, doubled: float = 0.01) -> list[Event]:
    """Events in the order in which they come: most within seconds, some after minutes, a few after an hour and more.

    A share `doubled` is delivered twice. Every tenth event is user 0's, a guest.
    """
    source, found = random.Random(seed), []
    for number in range(count):
        at = source.uniform(0, days * 86400)
        user = 0 if source.random() < 0.1 else source.randrange(users)
        for _ in range(2 if source.random() < doubled else 1):
            late = source.expovariate(1 / 5) if source.random() < 0.97 else source.paretovariate(1.2) * 60
            found.append(Event(number, user, at, at + late))
    return sorted(found, key=lambda event: event.came)


def batch(events: Iterable[Event], width: float) -> Counter[Window]:
    """The right answer: every event once, by its own time."""
    once = {event.id: event for event in events}
    return Counter((event.user, int(event.at // width)) for event in once.values())


@dataclass
class Streamed:
    """What a stream wrote: the count of each window, how many deliveries it dropped, the most windows it kept open."""

    counts: Counter[Window] = field(default_factory=Counter)
    dropped: int = 0
    most_open: int = 0


def streamed(events: Sequence[Event], width: float, watermark: float, *, distinct: bool = True) -> Streamed:
    """Count as they come; a window is closed when an event has been seen that is `watermark` seconds past its end.

    With `distinct`, ids are kept with each open window, and a second delivery is not counted.
    """
    found, latest = Streamed(), 0.0
    seen: dict[Window, set[int]] = {}
    for number, event in enumerate(events):
        window = (event.user, int(event.at // width))
        if (window[1] + 1) * width + watermark <= latest:
            found.dropped += 1
            continue
        ids = seen.setdefault(window, set())
        if not distinct or event.id not in ids:
            found.counts[window] += 1
        ids.add(event.id)
        latest = max(latest, event.at)
        if number % 500 == 0:
            seen = {key: kept for key, kept in seen.items() if (key[1] + 1) * width + watermark > latest}
            found.most_open = max(found.most_open, len(seen))
    return found


def wrong(counts: Counter[Window], right: Counter[Window]) -> float:
    """The share of windows whose count is not the right one."""
    return sum(counts[window] != number for window, number in right.items()) / len(right)


def backfilled(events: Sequence[Event], width: float, days: int, stops: int, *, overwrite: bool) -> Counter[Window]:
    """A batch job by days that stops after it has written day `stops`, and is begun again from that day.

    With `overwrite` a day's run replaces what is there for the day; otherwise it adds to it.
    """
    table: Counter[Window] = Counter()
    per_day = 86400 / width
    for day in [*range(stops + 1), *range(stops, days)]:
        of_day = batch([event for event in events if event.at // 86400 == day], width)
        if overwrite:
            table = Counter({window: n for window, n in table.items() if window[1] // per_day != day})
        table += of_day
    return table
