"""Time to pixels: steps evenly spaced, seconds in proportion but for torn stretches in which nothing happens."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

from grader.trace.board.scene import Scene
from grader.trace.paper import Axis
from grader.trace.times import Unit, number

WIDEST = 1060.0  # pixels of the time axis
TEAR, MOST_TEARS = 40.0, 12
GAIN, EMPTY = 1.12, 0.3  # a tear widens the rest by so much; a stretch of this share of all is always torn
FLIGHT = 34.0  # pixels that half of the messages should have from sender to receiver, where tears allow it
MOST_FLIGHT = 52.0  # beyond which they need no more
LEAST_STEP, MOST_STEP = 24.0, 108.0
_LEAST_S = 560.0
SECONDS = Unit("s", 1.0)


def ticks(axis: Axis) -> Iterator[tuple[float, str]]:
    """Round times in seconds, with their words; then where time goes on after a tear: no round time may be near."""
    for (since, until), pixels in axis.pieces():
        if pixels / 62 > 0.3:
            yield from SECONDS.ticks(since, until, int(pixels / 62))
    for _, until in axis.tears:
        yield until, number(round(until, 4))


def of(scene: Scene) -> Axis:
    return _steps(scene) if scene.unit == "step" else _seconds(scene)


def _steps(scene: Scene) -> Axis:
    moments = scene.moments()
    first = scene.since if any(at < 1 for at in moments if at > scene.since) or _busy(scene) else 0.5
    last = max(float(min(scene.steps, math.ceil(scene.until))), first + 1)
    step = max(min(MOST_STEP, WIDEST / (last + 0.6 - first)), 1.0)
    return Axis((first, last + 0.6), (0.0, step * (last + 0.6 - first)))


def _busy(scene: Scene) -> bool:
    """Whether something other than a start is drawn before the first step."""
    at = scene.since
    return (
        any(message.sent.sent <= at for message in scene.messages)
        or any(mark.event.at <= at and mark.event.what != "start" for mark in scene.marks)
        or any(operation.since <= at for operation in scene.operations)
    )


def _seconds(scene: Scene) -> Axis:
    moments = scene.moments()
    length = scene.until - scene.since
    if length < 1e-9:
        return Axis((scene.since, scene.since + 1.0), (0.0, _LEAST_S))
    width = min(WIDEST, max(_LEAST_S, 44.0 * len(moments)))
    gaps = sorted(((b - a, a, b) for a, b in itertools.pairwise(moments)), reverse=True)
    flight = _flight(scene)
    torn = _tears(gaps, flight, length, width)
    shown = length - sum(gap for gap, _, _ in torn)
    pixels = (width - TEAR * len(torn)) / shown if shown > 0 else 0.0
    if flight and torn:
        pixels = min(pixels, MOST_FLIGHT / flight)
    spare = width - TEAR * len(torn) - shown * pixels  # for tears, so that what was left out is seen to be long
    share = spare / sum(math.sqrt(gap) for gap, _, _ in torn) if torn else 0.0
    tears = ((since, until) for _, since, until in torn)
    return Axis.torn(scene.since, scene.until, 0.0, pixels, tears, lambda gap: TEAR + share * math.sqrt(gap))


def _flight(scene: Scene) -> float:
    """How long half of the messages take or longer, in seconds; 0.0 where none arrived."""
    flights = sorted(
        message.sent.arrived - message.sent.sent
        for message in scene.messages
        if message.sent.arrived is not None and not message.pale
    )
    return flights[len(flights) // 2] if flights else 0.0


def _tears(
    gaps: list[tuple[float, float, float]], flight: float, length: float, width: float
) -> list[tuple[float, float, float]]:
    """The stretches to tear: the longest, as few as let messages be seen to slant, and what is mostly empty."""
    torn: list[tuple[float, float, float]] = []
    for gap in gaps[: MOST_TEARS if flight or len(gaps) > 4 else 0]:
        if gap[0] >= length:
            break
        pixels = (width - TEAR * len(torn)) / length
        wider = (width - TEAR * (len(torn) + 1)) / (length - gap[0])
        wanted = flight * pixels < FLIGHT or gap[0] * pixels >= EMPTY * width
        if not wanted or wider < GAIN * pixels:
            break
        torn.append(gap)
        length -= gap[0]
    return torn
