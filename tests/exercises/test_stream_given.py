"""What stream_exactly_once puts into the input has one right answer, however Spark cuts it into batches."""

from __future__ import annotations

import json
import random
from collections import Counter
from datetime import datetime

import pytest

from grader.exercises.stream_exactly_once import MINUTE
from grader.exercises.stream_exactly_once.windows import BEFORE, WHICH, Story, Window, story

Event = tuple[datetime, Window]


def events(text: str, told: Story) -> list[Event]:
    found = []
    for line in text.splitlines():
        event = json.loads(line)
        at = datetime.fromisoformat(event["event_time"])
        found.append((at, ((at - told.first) // MINUTE, event["key"])))
    return found


def batches(told: Story, together: bool) -> list[list[Event]]:
    """Each file as a batch; with `together`, those that are there at the start as one."""
    first, *others = told.lives
    present = [events(text, told) for _, text in first.present]
    if together:
        present = [[event for each in present for event in each]]
    steps = [*first.steps, *(step for life in others for step in life.steps)]
    return [*present, *(events(text, told) for step in steps for _, text in step.files)]


def counted(told: Story, cut: list[list[Event]], behind: int) -> tuple[Counter[Window], Counter[Window]]:
    """What is counted and what is dropped, with the watermark of so many batches before."""
    kept: Counter[Window] = Counter()
    dropped: Counter[Window] = Counter()
    for number, batch in enumerate(cut):
        seen = [at for each in cut[: max(0, number - behind)] for at, _ in each]
        for _, window in batch:
            end = told.first + (window[0] + 1) * MINUTE
            too_late = bool(seen) and end <= max(seen) - 2 * MINUTE
            (dropped if too_late else kept)[window] += 1
    return kept, dropped


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("together", [True, False], ids=["one batch at the start", "a file a batch"])
@pytest.mark.parametrize("behind", [0, 1], ids=["the last watermark", "the one before"])
def test_the_counts_are_those_of_the_watermark(seed: int, together: bool, behind: int) -> None:
    told = story(random.Random(seed))
    assert counted(told, batches(told, together), behind) == (told.right, told.dropped)


def test_every_window_but_those_that_push_the_watermark_belongs_to_a_part() -> None:
    told = story(random.Random(1))
    parts = {window: told.part(window) for window in told.right}
    last = max(minute for ranges in WHICH.values() for each in ranges for minute in each)
    assert {window for window, part in parts.items() if part is None} == {w for w in told.right if w[0] > last}
    assert set(parts.values()) == {"plain", "late", *WHICH, None}
    assert all(told.part(window) == "late" and window[0] in BEFORE for window in told.dropped)
