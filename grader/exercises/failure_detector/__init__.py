"""PhiAccrualDetector(window, threshold): how unlikely it is that a node that is silent for so long is alive; and
Monitor(Node), which tells clients which nodes it takes for crashed (see `monitor`).

Hayashibara, Defago, Yared, Katayama 2004, "The phi accrual failure detector" (see `suspicion`). Times are given, never read
from a clock, so that all is decided in virtual seconds; nodes run in virtual time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial

from grader.exercise import Check, Exercise
from grader.exercises.common import plain
from grader.exercises.failure_detector import monitor, suspicion
from grader.exercises.failure_detector.heartbeats import cases
from grader.exercises.failure_detector.suspicion import Ask, Script
from grader.lost import Lost
from grader.ranks.program import Function, Limits
from grader.worlds.cases import Case
from grader.worlds.nodes import Nodes, NodesAndCalls, of_calls, of_nodes
from grader.worlds.ranks import Outcome, RankBench, Ranks

# ---- what came back


def _wrong(bench: RankBench, case: Case, ask: Ask, text: str, expected: str, got: str) -> Lost:
    return bench.lost(case, "wrong_result", f"With {case.label}: {ask.when}{text}".strip(), None, expected, got)


def _answers(bench: RankBench, group: str) -> Iterator[tuple[Case, list[tuple[Ask, float, bool]]]]:
    """Every question of a group with phi and alive as they were said. Raises Lost where those are no such values."""
    for case, result in bench.calls(group):
        script: Script = case.expected
        returned = result.returned[0]
        told = returned.get("answers") if isinstance(returned, dict) else None
        told = told if isinstance(told, list) else []
        found = []
        for number, ask in enumerate(script.asks):
            said = told[number] if number < len(told) and isinstance(told[number], list) else [None, None]
            phi, alive, (what, which) = plain.number(said[0]), said[1], map(plain.in_words, said[:2])
            if phi is None or math.isnan(phi):
                raise _wrong(bench, case, ask, f", phi(now) returned {what}. Return a float, no NaN.", "a float", what)
            if not isinstance(alive, bool):
                raise _wrong(bench, case, ask, f", alive(now) returned {which}. Return True or False.", "a bool", which)
            found.append((ask, phi + 0.0, alive))  # without the sign of -0.0
        yield case, found


def _judged(bench: RankBench, group: str, why: Callable[[Ask], str] = lambda _: "") -> Outcome:
    """Alive or not, and phi within its bounds, wherever it is asked; `why` explains the first that is wrong."""
    for case, found in _answers(bench, group):
        for ask, phi, alive in found:
            if not ask.low <= phi <= ask.high:
                wanted = "0.0" if ask.low == ask.high == 0 else f"{max(ask.low, 0):.3g} to {ask.high:.3g}"
                text = f", phi is {phi:.4g}, expected {wanted}. {_phi_habit(ask, phi, found)}"
                raise _wrong(bench, case, ask, text, wanted, f"{phi:.4g}")
            if ask.alive is not None and alive != ask.alive:
                threshold = case.expected.detectors[ask.detector][1]
                text = f", phi is {phi:.4g} and alive(now) is {alive}, expected {ask.alive}. "
                text += (
                    _compared(phi, threshold) if alive != (phi < threshold) else _phi_habit(ask, phi, found) or why(ask)
                )
                wanted, got = ("alive" if one else "suspected" for one in (ask.alive, alive))
                raise _wrong(bench, case, ask, text, wanted, got)
    return bench.picture(group)


def _compared(phi: float, threshold: float) -> str:
    return f"alive(now) must return phi < threshold. Here {phi:.4g} < {threshold:g} is {phi < threshold}."


TWO_CAME = "Two heartbeats or more have come, so phi must grow with the silence. It is 0.0 only before the second one."


def _phi_habit(ask: Ask, phi: float, found: list[tuple[Ask, float, bool]]) -> str:
    if ask.low == ask.high == 0:
        return "Without an interval between two heartbeats the node's pace is unknown. Return 0.0 until there is one."
    since = [value for other, value, _ in found if other.spread > 0]
    zero = ""
    if phi == 0 and not math.isnan(ask.mean):
        zero = TWO_CAME
    if zero and not any(since):
        return zero
    if len(since) > 3 and max(since) - min(since) < 1e-3:
        return "phi is the same for every `now`. Compute it from the argument `now`, and read no clock."
    earlier = [other for other, value, _ in found if other.detector == ask.detector and value == phi > 0]
    sooner = min((other.elapsed for other in earlier), default=ask.elapsed)
    if ask.alive is False and sooner < ask.elapsed and math.isfinite(phi):
        return f"phi had the same value after {sooner:.4g} s. It must grow with the silence, without a limit."
    told = [(value, list(suspicion.mistakes(other))) for other, value, _ in found if other.spread > 0]
    for number, (_, sentence) in enumerate(told[0][1] if len(told) > 1 else []):  # one value may match by chance
        if all(math.isclose(value, wrong[number][0], rel_tol=0.1, abs_tol=0.05) for value, wrong in told):
            return sentence
    return zero


def _consistent(bench: RankBench) -> Outcome:
    """alive(now) is phi(now) < threshold, whatever the threshold."""
    for case, found in _answers(bench, "threshold"):
        script: Script = case.expected
        for ask, phi, alive in found:
            threshold = script.detectors[ask.detector][1]
            if alive != (phi < threshold):
                text = f", phi is {phi:.4g}, but alive(now) is {alive}. {_compared(phi, threshold)}"
                raise _wrong(bench, case, ask, text, str(phi < threshold), str(alive))
    return _judged(bench, "threshold")


def _same_by_any_clock(bench: RankBench) -> Outcome:
    """phi does not depend on what the clock says, only on differences."""
    (_, first), *others = _answers(bench, "clock")
    for case, answers in others:
        for (_, phi, _), (ask, other, _) in zip(first, answers, strict=True):
            if not math.isclose(phi, other, rel_tol=1e-3, abs_tol=1e-3):
                text = (
                    f" of {'three' if ask.detector == 0 else '41'}, phi is {other:.4g}. With a clock that says 0 at the "
                    f"first heartbeat phi is {phi:.4g}, and both must be equal. Use only differences between times. Do not "
                    "treat a time of 0.0 as missing, and keep all digits of a time."
                )
                raise _wrong(bench, case, ask, text, f"{phi:.4g}", f"{other:.4g}")
    return _judged(bench, "clock")


def _paced(bench: RankBench) -> Outcome:
    """After a change of pace no false alarm and the new bound; and what came before the window has no part in phi."""
    outcome = _judged(bench, "pace", _of_a_pace)
    for case, found in _answers(bench, "pace"):
        script: Script = case.expected
        for (ask, phi, _), (_, fresh, _) in zip(found[::2], found[1::2], strict=False):
            if script.detectors[0] != script.detectors[1] and not math.isclose(phi, fresh, rel_tol=0.01, abs_tol=0.01):
                text = (
                    f", phi is {phi:.4g}. A detector that saw only the heartbeats of the new pace returns {fresh:.4g}, and "
                    f"both must be equal. Use exactly the last {script.detectors[0][0]} intervals."
                )
                if fresh == 0:
                    text = (
                        f", phi is {phi:.4g}. A detector with window={script.detectors[1][0]} that saw only the last "
                        f"{script.detectors[0][0] + 1} heartbeats returns 0, and both must be equal. {TWO_CAME}"
                    )
                    raise _wrong(bench, case, ask, text, f"{phi:.4g}", "0")
                raise _wrong(bench, case, ask, text, f"{fresh:.4g}", f"{phi:.4g}")
    return outcome


def _of_a_return(ask: Ask) -> str:
    if ask.alive:
        return "After an outage one heartbeat is enough to trust the node again."
    if "outage, " in ask.when:
        return "Do not count an outage as an interval between heartbeats: it says nothing about the node's pace."
    return ""


def _of_a_pace(ask: Ask) -> str:
    if ask.detector == 1 and not ask.alive:
        return (
            f"The intervals in the window have a mean of {ask.mean:.3g} s and a standard deviation of {ask.spread:.3g} s. "
            f"By the normal distribution, phi is {suspicion.normal((ask.elapsed - ask.mean) / ask.spread):.4g}. Keep a "
            "floor under the standard deviation to at most a tenth of the mean."
        )
    text = "The last `window` intervals all have the new pace, and only these intervals may count."
    if ask.alive:
        text += " One suspicious gap is an outage: leave it out. If the next gap is suspicious too, the pace is new: count that gap."
    return text


EXERCISE = Exercise(
    name="failure_detector",
    chapter="11",
    title="A failure detector that says how sure it is",
    minutes=60,
    difficulty=2,
    cost="seconds",
    world=NodesAndCalls(
        Nodes(("Monitor",)),
        Ranks(
            (Function("PhiAccrualDetector", ("window", "threshold")),),
            cases,
            limits=Limits(cpu_seconds=5, load_cpu_seconds=10, idle_seconds=15),
        ),
    ),
    checks=(
        Check("phi", "phi is -log10 of the normal tail", 4, of_calls(partial(_judged, group="phi"))),
        Check("threshold", "Alive as long as phi < threshold", 2, of_calls(_consistent)),
        Check("jitter", "No false alarm under jitter", 3, of_calls(partial(_judged, group="jitter"))),
        Check("crash", "A crash is seen within 8 periods, and stays seen", 3, of_calls(partial(_judged, group="crash"))),
        Check("regular", "Heartbeats that come by the clock", 2, of_calls(partial(_judged, group="regular"))),
        Check("clock", "What the clock says does not matter", 2, of_calls(_same_by_any_clock)),
        Check(
            "back", "Trusted again, and the outage is forgotten", 3,
            of_calls(partial(_judged, group="back", why=_of_a_return)),
        ),
        Check("pace", "After `window` heartbeats of a new pace it counts alone", 3, of_calls(_paced)),
        Check("listed", "Monitor: a crashed node is listed within 5 s", 3, of_nodes(monitor.listed)),
        Check("trusted", "Monitor: no node is listed that has been up for 2 s", 3, of_nodes(monitor.trusted)),
        Check("again", "Monitor: a second crash is seen as soon as the first", 2, of_nodes(monitor.again)),
        Check("skewed", "Monitor: clocks that differ by up to 100 s", 2, of_nodes(monitor.skewed)),
    ),
)  # fmt: skip
