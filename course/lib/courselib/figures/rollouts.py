"""Generators and a trainer: who waits, and how old samples get."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Any

from courselib.figures.shown import figure
from courselib.rollouts import Fleet, lengths
from courselib.timeline import timeline

STEPS, BATCH, ANSWERS = 12, 8, 400
SPREADS = (0.0, 0.4, 0.8, 1.1)


def played(durations: Sequence[float], generators: int, ahead: int, seconds: float) -> Fleet:
    """What `rollouts.control`, `train` and `generate` do on ranks between which messages take no time.

    `STEPS` steps of `seconds` on `BATCH` answers each; prompts are handed out at most `ahead` batches early.
    """
    lanes: list[list[tuple[float, float, str, str]]] = [[] for _ in range(generators + 1)]
    waiting = list(range(1, generators + 1))
    ready: list[int] = []
    ages: list[int] = []
    coming: list[tuple[float, int, int]] = []  # when, lane 0 for the trainer, the version that answered
    now, out, version, training = 0.0, 0, 0, False
    while version < STEPS:
        if len(ready) >= BATCH and not training:
            ages += [version - answered_by for answered_by in ready[:BATCH]]
            ready, training = ready[BATCH:], True
            lanes[0].append((now, now + seconds, str(version + 1), "trains"))
            heapq.heappush(coming, (now + seconds, 0, version))
        while waiting and out < BATCH * (version + 1 + ahead):
            lane, until = waiting.pop(0), now + durations[out % len(durations)]
            kind = f"generates, {'odd' if version % 2 else 'even'} version"
            lanes[lane].append((now, until, str(version), kind))
            heapq.heappush(coming, (until, lane, version))
            out += 1
        now, lane, answered_by = heapq.heappop(coming)
        if lane:
            ready.append(answered_by)
            waiting.append(lane)
        else:
            version, training = version + 1, False
    return Fleet([[], *lanes], ages)


def rollouts(ahead: int = 1, *, generators: int = 4, seconds: float = 0.5, spread: float = 0.8) -> Any:
    """Lanes of a trainer and of generators whose answers take 1 on average; `ahead` of 1000 is no limit."""
    drawn = {str(each): [round(length, 4) for length in lengths(ANSWERS, each)] for each in SPREADS}
    told = played(drawn[str(spread)], generators, ahead, seconds)
    return figure(
        "rollouts",
        timeline("Generators and a trainer", told.rows),
        question="Let a step take as long as four answers, with 4 generators. From which setting of 'ahead' on does "
        "nothing get faster? What grows instead? Then give all answers the same length: what does the synchronous "
        "loop lose now?",
        answer="With a slow trainer one step ahead is enough to keep it busy. Beyond that the generators idle less, "
        "the run is not faster, and samples get older, because they wait. With answers of one length the synchronous "
        "loop loses only the time of the trainer's step: the long tail is what asynchrony is for.",
        durations=drawn, ahead=ahead, generators=generators, seconds=seconds, spread=spread,
    )  # fmt: skip
