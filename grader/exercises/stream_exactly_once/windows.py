"""What stream_exactly_once is given, life by life, and how often each key must have been counted in each minute."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Literal

from grader.jobs.sparks.lives import Death, Life, Step, Until

Window = tuple[int, str]  # minutes after the first one, and the key
Part = Literal["plain", "late", "open", "carried", "uncommitted", "midway"]
WHICH: dict[Part, tuple[range, ...]] = {  # minutes, by what befalls the rows that are written of them
    "open": (range(26, 28), range(34, 37), range(40, 43), range(46, 49)),
    "carried": (range(28, 31),),  # counted in one batch, and written in the next, whose commit is lost
    "uncommitted": (range(31, 34),),
    "midway": (range(37, 40), range(43, 46)),
}
BEFORE = range(8)  # all that is final before the first kill
BUSY = 600  # events of a key in one window, of three keys
IDLE, UNCOMMITTED, TOUCHED, FROZEN = (
    "killed between two batches", "killed after the sink has written, and before the commit",
    "killed as soon as the sink wrote anything", "killed when the sink had half written",
)  # fmt: skip


@dataclass
class Story:
    """All of it: lives to be lived, and what is right."""

    first: datetime
    lives: tuple[Life, ...] = ()
    right: Counter[Window] = field(default_factory=Counter)
    before: Counter[Window] = field(default_factory=Counter)  # without what came late
    dropped: Counter[Window] = field(default_factory=Counter)  # what came too late
    spans: list[list[tuple[int, int]]] = field(default_factory=list)  # of each life's steps: first and last minute

    def name(self, minute: int) -> str:
        """A window as a learner reads it."""
        begin = self.first + timedelta(minutes=minute)
        return f"{begin:%H:%M} to {begin + timedelta(minutes=1):%H:%M}"

    def part(self, window: Window) -> Part | None:
        """What befalls a window; None for those that only push the watermark on."""
        if window[0] in BEFORE:
            return "late" if window in self.dropped or self.right[window] != self.before[window] else "plain"
        return next((part for part, ranges in WHICH.items() if any(window[0] in each for each in ranges)), None)


class _Writer:
    """Draws events, and keeps account of them."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.keys = ["".join(rng.choices("abcdefghij", k=rng.randint(3, 6))) for _ in range(3)]
        self.keys.append(self.keys[0].upper())
        first = datetime(2026, 3, 1 + rng.randrange(20), rng.randrange(6, 18), rng.randrange(10, 50), tzinfo=UTC)
        self.story = Story(first)
        self._numbers = rng.sample(range(10_000, 100_000), 8000)

    def _line(self, minute: float, key: str) -> str:
        at = self.story.first + timedelta(minutes=minute)
        moment = f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03d}Z"
        return json.dumps({"event_id": f"e{self._numbers.pop()}", "event_time": moment, "key": key}) + "\n"

    def many(self, minutes: range) -> list[str]:
        """Events of all keys in each of these minutes; in the last one at its very end, too."""
        found = []
        for minute in minutes:
            for key in self.keys:
                seconds = [self.rng.randrange(60_000) / 1000 for _ in range(self.rng.randint(1, 6))]
                seconds += [0.0] if self.rng.random() < 0.4 else []
                seconds += seconds[:1]  # two events at one time, which only their ids tell apart
                found += self.some(minute, key, seconds)
        return found + self.some(minutes[-1], self.keys[-1], [59.999])

    def some(self, minute: int, key: str, seconds: list[float], too_late: bool = False) -> list[str]:
        kept = self.story.dropped if too_late else self.story.right
        kept[minute, key] += len(seconds)
        return [self._line(minute + second / 60, key) for second in seconds]

    def file(self, *parts: list[str]) -> tuple[str, str]:
        lines = [line for part in parts for line in part]
        self.rng.shuffle(lines)
        return f"events-{self._numbers.pop()}.json", "".join(lines)


def story(rng: random.Random) -> Story:
    """Five lives. The watermark is 2 minutes behind the latest event of all batches before."""
    writer = _Writer(rng)
    told, keys = writer.story, writer.keys
    many, some, file = writer.many, writer.some, writer.file

    def step(minutes: range, *more: list[str], until: Until = "idle") -> Step:
        told.spans[-1].append((minutes[0], minutes[-1]))
        return Step((file(many(minutes), *more),), until)

    told.spans.append([(0, 5)])
    present = tuple(file(many(minutes)) for minutes in (range(2), range(1, 4), range(3, 6)))
    # so many events that an estimate of their number is not the number: a few of them it gets right
    for key in keys[:3]:
        busy = some(4, key, [60 * number / BUSY for number in range(BUSY)])
        present += ((f"events-{key}.json", "".join(busy)),)
    # Spark may hold an event against the watermark of one batch before: here is one more, so that this is the same
    more = step(range(6, 7))
    told.before = Counter(told.right)
    beyond = [
        some(minute, key, [rng.uniform(1, 58) for _ in range(3)], too_late=True)
        for minute, key in ((0, keys[0]), (1, keys[1]), (2, keys[1]), (1, "nobody-in-time"))
    ]
    within = [some(minute, key, [rng.uniform(1, 58) for _ in range(2)]) for minute, key in ((5, keys[0]), (6, keys[1]))]
    late = step(range(7, 8), *beyond, *within)
    told.before.update({window: told.right[window] for window in told.right if window[0] == 7})
    steps = Step(), more, late, step(range(26, 27)), step(range(27, 28))
    lives = [Life("the first life", steps, True, Death(IDLE), present)]
    told.spans.append([])
    again = some(26, keys[0], [20.0, 40.0]), some(27, keys[1], [30.0])
    carried = Step(), step(range(27, 31), *again), step(range(31, 37))
    lives.append(Life(f"the second life ({IDLE})", carried, death=Death(UNCOMMITTED, uncommit=True)))
    told.spans.append([])
    touched = Step(), step(range(37, 40)), step(range(40, 43), until="touched")
    lives.append(Life(f"the third life ({UNCOMMITTED})", touched, death=Death(TOUCHED)))
    told.spans.append([])
    frozen = Step(), step(range(43, 46)), step(range(46, 49), until="frozen")
    lives.append(Life(f"the fourth life ({TOUCHED})", frozen, death=Death(FROZEN)))
    told.spans.append([])
    year = 365 * 24 * 60
    far = [Step((file(some(year * (1 + number), keys[0], [5.0])),)) for number in range(2)]
    lives.append(Life(f"the fifth life ({FROZEN})", (Step(), *far), True))
    told.lives = tuple(lives)
    return told
