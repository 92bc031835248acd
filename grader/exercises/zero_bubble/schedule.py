"""Judges of zero_bubble's schedule: the time of the step, and how many outputs were alive, by the passes that ran."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace

from grader import says, tally
from grader.exercises.common import checks
from grader.exercises.pipeline.judging import WRONG, values
from grader.exercises.pipeline.training import Given, Plan
from grader.lost import Lost
from grader.ranks.program import CallResult
from grader.trace.events import SEND, Span
from grader.verdict import Kind
from grader.worlds.cases import Case
from grader.worlds.ranks import Outcome, RankBench

NANOSECONDS = 1e9
SLACK = 1.02  # of the time
CALLS = {"F": "stage()", "B": "backward_input()", "W": "backward_weight()"}
Line = tuple[str, int]  # what is said, and the learner's line that it is about (0: none)


def _seconds(plan: Plan) -> dict[str, float]:
    return {"F": plan.forward, "B": plan.backward, "W": plan.weight_pass}


def _least(plan: Plan) -> float:
    """Seconds of a step in ZB-H1."""
    return plan.work + (plan.stages - 1) * (plan.forward + plan.backward - plan.weight_pass)


def _passes(bench: RankBench, case: Case, result: CallResult, rank: int) -> list[Span]:
    """A stage's passes in order, all that there must be. None takes less time than a micro-batch's.

    Raises Lost where there are others.
    """
    plan: Plan = case.expected.plan
    seconds = _seconds(plan)
    found = sorted((span for span in result.trace.spans if span.rank == rank), key=lambda span: span.since)
    found = [span for span in found if span.of_pass]
    short = [s for s in found if s.until - s.since < 0.99 * NANOSECONDS * seconds[s.of_pass]]
    if short:
        span, rows = short[0], says.counted(plan.rows, "sample")
        took, whole = f"{(span.until - span.since) / NANOSECONDS:.3g} s", f"{seconds[span.of_pass]:g} s"
        what = (
            f"With {case.label}: on rank {rank}, a call of {CALLS[span.of_pass]} took {took}. For a micro-batch of {rows} "
            f"it takes {whole}. Call {CALLS[span.of_pass]} with whole micro-batches only, once for each."
        )
        raise _at(bench.lost(case, "wrong_result", what, rank, whole, took), span.line)
    for letter, call in CALLS.items():
        times = sum(span.of_pass == letter for span in found)
        if times != plan.micro_batches:
            many = says.counted(times, "time")
            what = (
                f"With {case.label}: rank {rank} calls {call} {many} for {plan.micro_batches} micro-batches. Call it "
                "once for each."
            )
            kind: Kind = "too_slow" if times > plan.micro_batches else "wrong_result"
            raise bench.lost(case, kind, what, rank, f"{plan.micro_batches} calls", f"{times}")
    letters, did = "".join(span.of_pass for span in found), checks.field(result, rank, "passes")
    if letters != did:
        what = (
            f"With {case.label}: rank {rank}'s stage went through its passes in another order than was recorded. Do "
            "not touch the clock or the records."
        )
        raise bench.lost(case, "sandbox_violation", what, rank, letters[:60], str(did)[:60])
    return found


def _lost(bench: RankBench, case: Case, kind: Kind, message: str, rank: int, line: int, *texts: str) -> Lost:
    """What a check raises, about one of the learner's lines."""
    return _at(bench.lost(case, kind, f"With {_told(case)}: {message}", rank, *texts), line)


def _at(loss: Lost, line: int) -> Lost:
    return Lost(replace(loss.diagnosis, line=line or None), loss.picture)


def _told(case: Case) -> str:
    plan: Plan = case.expected.plan
    seconds = ", ".join(f"{letter} = {each:g}" for letter, each in _seconds(plan).items())
    return f"{case.label} ({seconds} s)"


# ---- time


@checks.judged(values, "schedule", WRONG)
def bubble(bench: RankBench, case: Case, result: CallResult) -> None:
    """The time of the step: at most ZB-H1's and 2 %."""
    plan: Plan = case.expected.plan
    passes = [_passes(bench, case, result, rank) for rank in range(case.ranks)]
    took, least, extra = max(result.finish), _least(plan), _least(plan) - plan.work
    alternating = (plan.micro_batches + plan.stages - 1) * plan.work / plan.micro_batches
    tally.note("time of the step", took, SLACK * least, "s", where=_told(case), reference=alternating, of="1F1B")
    if took <= SLACK * least:
        return
    why, rank, line = _late(plan, result, passes)
    message = (
        f"the step takes {took:.4g} s. Each stage computes for {plan.work:g} s, and ZB-H1 waits "
        f"(p-1)(F+B-W) = {extra:g} s. {why}"
    )
    raise _lost(bench, case, "no_overlap", message, rank, line, f"at most {SLACK * least:.4g} s", f"{took:.4g} s")


def _late(plan: Plan, result: CallResult, passes: list[list[Span]]) -> tuple[str, int, int]:
    """Where time is lost: a sentence, the rank and the line it is about."""
    last = plan.stages - 1
    for rank in range(last, 0, -1):
        sends = sorted(
            (op.posted, op.line) for op in result.trace.operations(rank) if op.kind == SEND and op.peer == rank - 1
        )
        backward = [span for span in passes[rank] if span.of_pass == "B"]
        following = {b.name: w for b, w in itertools.pairwise(passes[rank])}
        for (posted, line), b in zip(sends, backward, strict=False):
            between = following.get(b.name)
            if between is not None and posted >= between.until:
                told = (
                    f"Rank {rank} sends the gradient of micro-batch {b.name[1:]} only after {between.name}, "
                    f"although {b.name} ended {(posted - b.until) / NANOSECONDS:.3g} s before. Rank {rank - 1} waits "
                    "for this gradient. Send it right after backward_input()."
                )
                return told, rank, line
    for rank in range(last, -1, -1):
        before = [span.of_pass for span in passes[rank]].index("B")
        right = min(plan.stages - rank, plan.micro_batches)
        if before != right:
            warm_up = f"Warm up with {_forward(right - 1)}. Then make" if right > 1 else "Without a warm-up, make"
            told = (
                f"Rank {rank} makes {_forward(before)} before its first backward_input(). {warm_up} one forward pass "
                "and one backward_input() in turn."
            )
            return told, rank, passes[rank][before].line
    for rank in range(last, 0, -1):
        letters = "".join(span.of_pass for span in passes[rank])
        waits = [w for w in _waits(passes[rank - 1]) if w[2].of_pass == "B" and w[2].name != "B0" and w[0] > 0]
        if letters.count("BW") == plan.micro_batches and waits:
            wait, _, after = max(waits, key=lambda each: (each[0], -each[2].since))
            told = (
                f"On rank {rank}, each backward_weight() comes right after its backward_input(). This delays the next "
                f"backward_input(), and rank {rank - 1} waits for {wait / NANOSECONDS:.3g} s before {after.name}. On "
                "stage s, let backward_weight() trail by s micro-batches."
            )
            return told, rank, next(span.line for span in passes[rank] if span.of_pass == "W")
    return _longest(plan, passes)


def _waits(passes: list[Span]) -> list[tuple[int, Span, Span]]:
    """Between any two passes of a rank, how long it waited."""
    return [(after.since - before.until, before, after) for before, after in itertools.pairwise(passes)]


def _longest(plan: Plan, passes: list[list[Span]]) -> tuple[str, int, int]:
    """The longest wait between two passes of a rank; of those in which a whole W pass could have run, if there are any."""
    waits = []
    for rank, mine in enumerate(passes):
        for number, (wait, before, after) in enumerate(_waits(mine)):
            waiting = {span.name[1:] for span in mine[: number + 1] if span.of_pass == "B"}
            free = [span.name for span in mine[number + 1 :] if span.of_pass == "W" and span.name[1:] in waiting]
            fits = wait >= 0.99 * NANOSECONDS * plan.weight_pass
            waits.append((fits and bool(free), wait, -rank, -number, before, after, free[:1] if fits else []))
    _, wait, rank, _, before, after, free = max(waits, key=lambda each: each[:4])
    told = f"Rank {-rank} waits for {wait / NANOSECONDS:.3g} s between {before.name} and {after.name}."
    return told + "".join(f" {name} could have run there." for name in free), -rank, after.line


def _forward(count: int) -> str:
    return f"{count} forward pass{'es' * (count != 1)}"


# ---- memory


def _alive(until: str) -> Callable[[list[Span]], Iterator[tuple[int, Span]]]:
    """After each forward pass, how many outputs have yet to go through the pass `until`."""

    def counted(passes: list[Span]) -> Iterator[tuple[int, Span]]:
        alive = 0
        for span in passes:
            alive += (span.of_pass == "F") - (span.of_pass == until)
            if span.of_pass == "F":
                yield alive, span

    return counted


def _right(bench: RankBench, group: str, quietly: bool) -> Iterator[tuple[Case, CallResult]]:
    """The calls of a group that are right. `quietly`: where one is not, other checks say so of the same stages."""
    try:
        yield from checks.if_right(values(bench, group), WRONG)
    except Lost:
        if not quietly:
            raise


def _bounded(
    until: str, allowed: Callable[[Plan, int], int], rule: str, how: str, *more: str
) -> Callable[[RankBench], Outcome]:
    """The outputs that have yet to go through the pass `until` are at most as many as `allowed`, which `rule` names."""

    def judge(bench: RankBench) -> Outcome:
        for group in ("schedule", "long", *more):
            for case, result in _right(bench, group, quietly=group in more):
                given: Given = case.expected
                for rank in range(case.ranks):
                    passes, most = _passes(bench, case, result, rank), allowed(given.plan, rank)
                    worst, when = max(_alive(until)(passes), key=lambda each: (each[0], -each[1].since))
                    if rank == 0:
                        what = f"outputs without {CALLS[until]} on the first stage"
                        tally.note(what, worst, most, "outputs", where=case.label)
                    if worst > most:
                        called = sum(s.of_pass == until and s.until <= when.since for s in passes)
                        message = (
                            f"after {when.name}, {worst} outputs on rank {rank} wait for their {CALLS[until]}: stage() "
                            f"has been called {worst + called} times, and {CALLS[until]} {called} times. At most "
                            f"{rule} = {most} may wait. {how}"
                        )
                        texts = f"at most {most}", str(worst)
                        raise _lost(bench, case, "too_much_memory", message, rank, when.line, *texts)
        return bench.picture("schedule")

    return judge


in_flight = _bounded(
    "B",
    lambda plan, rank: plan.stages - rank,
    "p - stage",
    "Warm up with p - stage - 1 forward passes. Then make one forward pass and one backward_input() in turn.",
)
live = _bounded(
    "W",
    lambda plan, rank: plan.stages,
    "p",
    "Each of these outputs keeps its activations. On stage s, call backward_weight() as soon as more than s outputs "
    "have gone through backward_input() and wait for it.",
    "alone",
)
