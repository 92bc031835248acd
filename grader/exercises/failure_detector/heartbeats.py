"""The cases of failure_detector: series of heartbeats, and when is asked what."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from grader.exercise import Draw
from grader.exercises.failure_detector import suspicion
from grader.exercises.failure_detector.suspicion import Script
from grader.worlds.cases import Case

BOUND = 8  # periods after which a crash must have been seen by threshold 8
LATE = 40  # periods after which a node is dead for every detector that is one
_POINTS = (-3, -2, -1, 0, 1, 2, 3, 4)  # standard deviations from the mean at which phi is asked for


def cases(draw: Draw) -> Iterator[Case]:
    """Every case of every check, all on one rank."""
    for window, period in ((30, 4.0), (60, 10.0), (100, 2.0)):
        yield _values(draw, window, period)
    for window, period in ((40, 1.0), (25, 2.0)):
        yield _thresholds(draw, window, period)
    for window, period in ((20, 1.0), (50, 0.5), (30, 20.0), (40, 3600.0)):
        yield _jitter(draw, window, period)
        yield _crash(draw, window, period)
    for window, period in ((10, 1.0), (5, 2.0), (50, 4.0), (10, 0.1), (20, 1.1)):
        yield _regular(window, period)
    for offset in (0.0, 1e9, -50.0):
        yield _clock(draw, offset)
    for window, period, outage in ((20, 1.0, 12), (30, 5.0, 50), (20, 0.5, 1000)):
        yield _back(draw, window, period, outage)
    yield _back_unasked(draw, 20, 1.0, 12)
    for window, period, factor in (
        (20, 2.0, 3.0),
        (30, 1.0, 3.0),
        (20, 0.5, 1 / 8),
        (40, 16.0, 1 / 16),
        (20, 0.5, 15.0),
    ):
        yield _pace(draw, window, period, factor)
    for window in (4, 9):
        yield _quicker(draw, window)


def _case(group: str, label: str, script: Script) -> Case:
    detectors = [[window, threshold] for window, threshold in script.detectors]
    events = [list(event) for event in script.events]
    return Case(group, label, ((detectors, events),), "PhiAccrualDetector", expected=script, by="watch")


def _label(window: int, period: float, jitter: bool = True) -> str:
    return f"window={window}, threshold=8, a heartbeat every {period:g} s{' with jitter' if jitter else ''}"


def _values(draw: Draw, window: int, period: float) -> Case:
    """phi around the mean, each time of a detector of its own; and 0.0 before there is an interval."""
    label = f"window={window}, heartbeats {period / 2:g} to {3 * period / 2:g} s apart"
    generator = draw.generator(f"phi {label}")
    gaps = generator.uniform(0.5, 1.5, window) * period
    gaps = np.array([gaps.max(), gaps.min(), *generator.permutation(np.sort(gaps)[1:-1])])  # none is suspicious so
    times = 100 + np.cumsum([0, *gaps])
    script = Script([(window, 8.0)] * (len(_POINTS) + 1))
    last = len(_POINTS)
    script.ask(3 * period, "before the first heartbeat", True, last, 0, 0)
    script.heartbeat(float(times[0]), last)
    for elapsed in (0.0, period, 1000 * period):
        script.ask(elapsed, f"{elapsed:g} s after the first heartbeat", True, last, 0, 0)
    for number, deviations in enumerate(_POINTS):
        script.beat([float(time) for time in times], number)
        elapsed = float(gaps.mean() + deviations * gaps.std())
        if elapsed > 0:
            low, high = suspicion.bounds(float(gaps.mean()), float(gaps.std()), window, elapsed)
            script.ask(elapsed, f"{elapsed:.4g} s after the last heartbeat", None, number, low, high)
    return _case("phi", label, script)


def _steady(draw: Draw, label: str, count: int, period: float, window: int) -> list[float]:
    """Times with jitter in which no gap is suspicious."""
    generator = draw.generator(label)
    start = float(generator.uniform(10, 1000))
    times = suspicion.steady(lambda: start + suspicion.arrivals(generator, count, period), window)
    return [float(time) for time in times]


def _thresholds(draw: Draw, window: int, period: float) -> Case:
    """Gaps that are long and short in turn, so that none is suspicious by any of the thresholds."""
    thresholds = (1.0, 3.0, 8.0, 20.0)
    label = f"window={window}, thresholds 1, 3, 8 and 20, heartbeats about {period:g} s apart"
    apart = float(draw.generator(f"thresholds {label}").uniform(0.12, 0.18))
    gaps = np.array([period * (1 + apart * (-1) ** number) for number in range(window)])
    script = Script([(window, threshold) for threshold in thresholds])
    for number in range(len(thresholds)):
        script.beat([float(time) for time in 100 + np.cumsum([0, *gaps])], number)
    for deviations in (*np.arange(-4, 12.5, 0.5), 30):
        elapsed = float(gaps.mean() + deviations * gaps.std())
        for number in range(len(thresholds)):
            dead = False if deviations == 30 else None
            script.ask(elapsed, f"{elapsed:.4g} s after the last heartbeat", dead, number)
    return _case("threshold", label, script)


def _jitter(draw: Draw, window: int, period: float) -> Case:
    """Up to a full window nobody is suspected before the longest gap so far, after that never."""
    label = _label(window, period)
    times = _steady(draw, f"jitter {label}", 3 * window, period, window)
    script = Script([(window, 8.0)])
    for number, time in enumerate(times):
        if number > 2:
            longest = max(np.diff(times[:number]))
            gap = time - times[number - 1] if number > window else 0.999 * longest
            for elapsed in (0.3 * gap, gap):
                seen = "the longest gap so far" if number <= window else "the next heartbeat"
                when = f"{elapsed:.4g} s after heartbeat {number}, not later than {seen}"
                script.ask(float(elapsed), when, True)
        script.heartbeat(time)
    script.ask(LATE * period, f"{LATE} periods after the last heartbeat", False)
    return _case("jitter", label, script)


def _crash(draw: Draw, window: int, period: float) -> Case:
    """Seen within the bound, and for ever."""
    label = _label(window, period)
    script = Script([(window, 8.0)])
    script.beat(_steady(draw, f"crash {label}", 2 * window, period, window))
    for periods in (BOUND, 20, 100, 10**4, 10**6):
        script.ask(periods * period, f"{periods} periods after the last heartbeat", False)
    return _case("crash", label, script)


def _regular(window: int, period: float) -> Case:
    """Intervals that do not differ, one and many. Floats hold whole times exactly. With others the mean of the squares is
    less than the square of the mean, by rounding, and there is no root of that."""
    label = _label(window, period, jitter=False)
    script = Script([(window, 8.0)] * 2)
    script.beat([64.0, 64.0 + period])
    script.beat([64.0 + number * period for number in range(2 * window)], 1)
    for which, heartbeats in ((0, 2), (1, 2 * window)):
        for share in (0.0, 0.5, 0.999):
            when = f"{share:g} periods after the last of {heartbeats} heartbeats"
            script.ask(share * period, when, True, which)
        for periods in (BOUND, LATE):
            script.ask(periods * period, f"{periods} periods after the last of {heartbeats} heartbeats", False, which)
    return _case("regular", label, script)


def _clock(draw: Draw, offset: float) -> Case:
    """One series by clocks that are set otherwise: phi is to be the same. It begins at 0, or at the offset."""
    label = f"window=20, threshold=8, a clock that says {offset:g} s at the first heartbeat"
    generator = draw.generator("clock")
    times = suspicion.steady(lambda: suspicion.arrivals(generator, 41, 1.0), 20)
    times = times - times[0]
    script = Script([(20, 8.0)] * 2, offset)
    script.beat([0.0, 1.0, 2.25])
    script.beat([float(time) for time in times], 1)
    for number, (mean, spread) in enumerate(((1.125, 0.125), (float(np.diff(times[-21:]).mean()), 0.12))):
        for deviations in (-2, 0, 1, 2, 3, 4):
            elapsed = mean + deviations * spread
            script.ask(elapsed, f"{elapsed:.4g} s after the last heartbeat", None, number)
        script.ask(LATE, f"{LATE} periods after the last heartbeat", False, number)
    return _case("clock", label, script)


def _back(draw: Draw, window: int, period: float, outage: int) -> Case:
    """Trusted at once when it is heard again; and the next crash is seen as soon as the first."""
    label = f"{_label(window, period)}, silent for {outage} periods"
    times = _steady(draw, f"back {label}", 2 * window, period, window)
    script = Script([(window, 8.0)])
    script.beat(times)
    script.ask(BOUND * period, f"{BOUND} periods after the last heartbeat before the outage", False)
    again = times[-1] + outage * period
    for number, share in enumerate((0.0, 1.05, 2.1)):
        script.heartbeat(again + share * period)
        ordinal = ("first", "second", "third")[number]
        for elapsed in (0.0, 0.6):
            script.ask(elapsed * period, f"{elapsed:g} periods after the {ordinal} heartbeat since the outage", True)
    when = f"in a second outage, {BOUND} periods after the third heartbeat since the first outage"
    script.ask(BOUND * period, when, False)
    last = again + 2.1 * period
    script.beat([last + outage * period + share * period for share in (0.0, 1.05, 2.1)])
    when = f"in a third outage, {BOUND} periods after the third heartbeat since the second outage"
    script.ask(BOUND * period, when, False)
    script.heartbeat(last + (2 * outage + 2.1) * period)
    script.ask(0.6 * period, "0.6 periods after the first heartbeat since the third outage", True)
    return _case("back", label, script)


def _back_unasked(draw: Draw, window: int, period: float, outage: int) -> Case:
    """An outage in which nobody asks is none of the intervals, either."""
    label = f"{_label(window, period)}, silent for {outage} periods in which nobody asks"
    times = _steady(draw, f"back {label}", 2 * window, period, window)
    script = Script([(window, 8.0)])
    script.beat([*times, *(times[-1] + (outage + share) * period for share in (0.0, 1.05, 2.1))])
    when = f"in a second outage, {BOUND} periods after the third heartbeat since the first outage"
    script.ask(BOUND * period, when, False)
    return _case("back", label, script)


def _pace(draw: Draw, window: int, period: float, factor: float) -> Case:
    """After `window` heartbeats of another pace that pace counts alone; the second detector never knew the first pace."""
    new = period * factor
    label = f"{_label(window, period)}, and then every {new:g} s"
    times = _steady(draw, f"pace {label}", 4 * window, period, window)
    later = _steady(draw, f"pace {label} new", 3 * window, new, window)
    later = [time - later[0] + times[-1] + new for time in later]
    script = Script([(window, 8.0)] * 2)
    script.beat(times)
    script.beat(later, 1)
    for number, time in enumerate(later):
        if number > window + 2:
            gap = time - later[number - 1]
            script.ask(gap, f"{gap:.4g} s after heartbeat {number} of the new pace, when the next one comes", True)
        script.heartbeat(time)
    script.ask(
        BOUND * new, f"{BOUND} periods after the last heartbeat, with heartbeats of the new pace alone", False, 1
    )
    script.ask(BOUND * new, f"{BOUND} of the new periods after the last heartbeat", False)
    return _case("pace", label, script)


def _quicker(draw: Draw, window: int) -> Case:
    """The window to the interval: the first of the new pace is unlike the others, and unlike the old ones."""
    label = f"window={window}, threshold=8, heartbeats about 10 s apart and then {window} that are about 3 s apart"
    generator = draw.generator(f"pace {label}")
    old = [10.5, 9.5, *generator.uniform(9.5, 10.5, 2 * window)]
    gaps = np.array([6.5, *generator.uniform(2.5, 3.5, window - 1)])
    times = [float(time) for time in 100 + np.cumsum([0, *old, *gaps])]
    script = Script([(window, 8.0), (3 * window, 8.0)])
    script.beat(times)
    script.beat(times[-window - 1 :], 1)  # who has never known another pace
    for deviations in (0, 1, 2, 3):
        elapsed = float(gaps.mean() + deviations * gaps.std())
        for number in range(2):
            script.ask(elapsed, f"{elapsed:.4g} s after the last heartbeat", None, number)
    return _case("pace", label, script)
