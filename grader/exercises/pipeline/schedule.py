"""Judges of pipeline's schedules: the bubble in virtual time, the order of passes, and the outputs that were alive."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

from grader import says, tally
from grader.exercises.common import checks, plain
from grader.exercises.common.checks import field, if_right
from grader.exercises.pipeline.judging import WRONG, numbers, values
from grader.exercises.pipeline.training import Given
from grader.ranks.program import CallResult
from grader.trace.events import Span
from grader.worlds.cases import Case
from grader.worlds.ranks import Outcome, RankBench

NANOSECONDS = 1e9
SLACK = 0.02  # of the bubble: what messages and an unlucky order may cost


# ---- time


def _computed(result: CallResult, rank: int) -> list[Span]:
    spans = [span for span in result.trace.spans if span.rank == rank and span.what == "compute"]
    return sorted(spans, key=lambda span: span.since)


def _first_backward(result: CallResult, rank: int) -> Span:
    """Of a rank that has computed all that it should."""
    return _computed(result, rank)[str(field(result, rank, "passes")).index("B")]


def bubble(name: str) -> Callable[[RankBench], Outcome]:
    """The part of the time in which a stage does not work: at most (p-1)/(m+p-1) and a little."""
    group = f"{name} schedule"

    def judge(bench: RankBench) -> Outcome:
        for case, result in if_right(values(bench, group), WRONG):
            given: Given = case.expected
            plan, took = given.plan, max(result.finish)
            found = 1 - plan.work / took if took > 0 else math.nan
            spans = [_computed(result, rank) for rank in range(case.ranks)]
            computed = [sum(span.until - span.since for span in mine) / NANOSECONDS for mine in spans]
            least, most = (best(range(case.ranks), key=lambda rank: computed[rank]) for best in (min, max))
            if computed[least] < 0.99 * plan.work:
                message = (
                    f"With {case.label}: rank {least} computes for {computed[least]:.4g} s instead of {plan.work:.4g} "
                    "s. Send every micro-batch through stage(), forward and backward."
                )
                raise bench.lost(case, "wrong_result", message, least, f"{plan.work:.4g} s", f"{computed[least]:.4g} s")
            tally.note("bubble", 100 * found, 100 * (plan.bubble + SLACK), "%", where=case.label,
                       reference=100 * (case.ranks - 1) / case.ranks, of="one stage at a time")  # fmt: skip
            if found <= plan.bubble + SLACK:
                continue
            allowed, seconds = f"at most {plan.bubble + SLACK:.1%}", f"{took:.4g} s"
            if computed[most] > 1.01 * plan.work:
                passes = str(field(result, most, "passes"))
                message = (
                    f"With {case.label}: the step takes {seconds}. Rank {most} computes for {computed[most]:.4g} s, in "
                    f"{passes.count('F')} forward and {passes.count('B')} backward passes. Send each micro-batch once "
                    f"forward and once backward through a stage, which takes {plan.work:.4g} s in all."
                )
                raise bench.lost(case, "too_slow", message, most, f"{plan.work:.4g} s", f"{computed[most]:.4g} s")
            message = (
                f"With {case.label}: the step takes {seconds}, and a stage computes for {plan.work:.4g} s. The bubble "
                f"is {found:.0%}, but filling and draining need only (p-1)/(m+p-1) = {plan.bubble:.0%}. "
                f"{_idle(given, result, found)}"
            )
            raise bench.lost(case, "no_overlap", message, None, allowed, f"{found:.1%}")
        return bench.picture(group)

    return judge


def _idle(given: Given, result: CallResult, found: float) -> str:
    """Where time is lost, in a sentence."""
    plan = given.plan
    p, last = plan.stages, plan.stages - 1
    if abs(found - (p - 1) / p) < 0.01:
        return (
            "With a bubble of (p-1)/p, one stage works at a time on average. Send each micro-batch on as soon as it is "
            "done, and begin the next one while other stages work on it."
        )
    spans = _computed(result, last)
    gaps = [after.since - before.until for before, after in itertools.pairwise(spans)]
    paused = [gap for gap in gaps if gap > 0.1 * NANOSECONDS * plan.forward]
    if paused:
        return (
            f"Once begun, the last stage should never wait, but it waits {says.counted(len(paused), 'time')}, "
            f"{sum(paused) / NANOSECONDS:.3g} s in all. Let the stages before it send earlier, or keep more "
            "micro-batches in flight."
        )
    late = _computed(result, last)[0].since / NANOSECONDS if spans else 0.0
    if late > (p - 1) * plan.forward + 0.1:
        return f"The last stage begins only after {late:.3g} s. Send each micro-batch on as soon as it is done."
    ended, begun = _first_backward(result, last).until, _first_backward(result, last - 1).since
    if begun - ended > 0.5 * NANOSECONDS * plan.forward:
        return (
            f"Rank {last - 1} begins its first backward pass {(begun - ended) / NANOSECONDS:.3g} s after the last stage "
            "ended its own. Send each micro-batch's gradient as soon as its backward pass is done."
        )
    return "The last stage hardly ever waits. Check how the last gradients go back to the first stage."


# ---- memory


def _passes(bench: RankBench, case: Case, result: CallResult, rank: int) -> tuple[str, list[float], list[float]]:
    """A stage's passes in order, and after each forward the micro-batches yet to go backward, and those kept after."""
    given: Given = case.expected
    passes = field(result, rank, "passes")
    waiting, kept = (numbers(field(result, rank, name)) for name in ("waiting", "kept"))
    if not isinstance(passes, str) or not waiting or kept is None or not len(waiting) == len(kept) == passes.count("F"):
        message = f"With {case.label}: rank {rank} never called stage(). Call it once for each micro-batch."
        raise bench.lost(case, "wrong_result", message, rank)
    rows = given.plan.rows
    return passes, [count / rows for count in waiting], [count / rows for count in kept]


@checks.judged(values, "gpipe schedule", WRONG)
def all_forward_first(bench: RankBench, case: Case, result: CallResult) -> None:
    """GPipe's order: m forward passes, then m backward, so that m outputs are alive."""
    given: Given = case.expected
    m = given.plan.micro_batches
    for rank in range(case.ranks):
        passes, waiting, _ = _passes(bench, case, result, rank)
        if passes == "F" * m + "B" * m:
            _none_left(bench, case, result, rank)
            continue
        forward, before = passes.count("F"), passes.index("B") if "B" in passes else len(passes)
        if forward != m:
            times = says.counted(forward, "time")
            what = f"rank {rank} calls stage() {times} for {m} micro-batches. Call it once for each."
        elif before == m:
            made = says.counted(passes.count("B"), "backward pass", "backward passes")
            what = f"rank {rank} makes {made} for {m} micro-batches. Make {m}."
        else:
            what = (
                f"rank {rank} begins a backward pass after {before} of {m} forward passes, with {max(waiting):g} "
                f"of its outputs waiting at most. In GPipe, send all {m} forward before the first goes backward."
            )
        texts = "F" * m + "B" * m, passes[: 4 * m]
        raise bench.lost(case, "wrong_result", f"With {case.label}: {what}", rank, *texts)


def _none_left(bench: RankBench, case: Case, result: CallResult, rank: int) -> None:
    """Raise Lost where outputs outlive the step: the next step's come on top. One may hang on, as during a step."""
    given: Given = case.expected
    m, left = given.plan.micro_batches, (plain.number(field(result, rank, "left")) or 0.0) / given.plan.rows
    if left > 1:
        message = (
            f"With {case.label}: when {case.function} has returned on rank {rank}, something still refers to {left:g} of its "
            f"{m} outputs of stage(). The next step's {m} outputs would come on top, and at most m = {m} may be alive. Keep no "
            "output, and no view of one, in a variable that outlives the call."
        )
        raise bench.lost(case, "too_much_memory", message, rank, "none left after the step", f"{left:g} left")


@checks.judged(values, "1f1b schedule", WRONG)
def live(bench: RankBench, case: Case, result: CallResult) -> None:
    """1F1B's memory: on stage s, at most p - s outputs of stage() are alive.

    One that has gone backward may hang on, at a variable that the next pass sets anew.
    """
    given: Given = case.expected
    plan = given.plan
    for rank in range(case.ranks):
        passes, waiting, kept = _passes(bench, case, result, rank)
        alive = [w + max(0.0, k - 1) for w, k in zip(waiting, kept, strict=True)]
        worst, allowed = max(alive), plan.stages - rank
        if rank == 0:
            tally.note("outputs alive on the first stage", worst, allowed, "outputs", where=case.label,
                       reference=plan.micro_batches, of="GPipe")  # fmt: skip
        if worst <= allowed:
            continue
        when = alive.index(worst)
        many = f"{waiting[when] + kept[when]:g}"
        held = f"{many} outputs of stage()"
        if passes.count("F") != plan.micro_batches:
            held = f"the outputs of {many} micro-batches"  # of one call or of several
            calls = says.counted(passes.count("F"), "time")
            why = f"stage() is called {calls} for {plan.micro_batches} micro-batches. Call it once for each."
        elif kept[when] > 1:
            why = (
                f"{kept[when]:g} of these outputs have gone backward already, but something still refers to them, "
                "such as a list, or an isend that was not waited for. Wait for each send, then drop what it sent."
            )
        elif "FB" in passes and passes.index("B") == plan.micro_batches:
            why = (
                f"All {plan.micro_batches} micro-batches go forward before the first goes backward, as in GPipe. "
                f"Make a backward pass as soon as {allowed} outputs are alive."
            )
        elif "B" not in passes:
            why = "None of them goes backward. Call backward() on the outputs of stage() themselves."
        else:
            before = says.counted(passes.index("B"), "forward pass", "forward passes")
            why = (
                f"The first backward pass comes after {before}. Warm up with p - stage - "
                f"1 = {allowed - 1} forward passes, then make one forward and one backward pass in turn."
            )
        one = " and one that has gone backward" if kept[when] else ""
        what = (
            f"With {case.label}: rank {rank} has {held} alive at forward pass {when + 1}. "
            f"At most p - stage = {allowed}{one} are allowed. {why}"
        )
        raise bench.lost(case, "too_much_memory", what, rank, f"at most {allowed}{one}", many)
