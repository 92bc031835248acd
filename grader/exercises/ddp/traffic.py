"""What ddp's checks find in the trace: collectives and bytes of a step, and when the first all-reduce begins."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from grader import tally
from grader.exercises.common import checks
from grader.exercises.ddp import training
from grader.exercises.ddp.training import Job
from grader.lost import Lost
from grader.ranks.program import CallResult
from grader.trace.events import SEND, Operation, Trace
from grader.worlds.cases import Case
from grader.worlds.ranks import Outcome, RankBench

BUDGET = 1.02


@dataclass(frozen=True)
class Stretch:
    """One rank's step in the trace, in nanoseconds: from its beginning, over the end of its backward pass, to its end.
    `layers` is when the backward pass of each layer began."""

    begin: int
    over: int
    end: int
    layers: tuple[int, ...]

    def operations(self, trace: Trace, rank: int, until: int | None = None) -> list[Operation]:
        """What the rank posted in it, without the making of groups."""
        last = self.end if until is None else until
        return [op for op in trace.operations(rank) if self.begin <= op.posted <= last and op.name != "new_group"]


def stretches(bench: RankBench, case: Case, result: CallResult, rank: int) -> list[Stretch]:
    """The steps of a rank, as the harness marked them in virtual time. Raises Lost where its marks are not there."""
    spans = [span for span in result.trace.spans if span.rank == rank and span.what == "compute"]

    def lasting(seconds: float) -> list[Any]:
        return [span for span in spans if abs(span.until - span.since - seconds * 1e9) <= 2]

    begins, overs, ends = ([span for span in lasting(mark) if not span.line] for mark in training.MARKS)
    wanted = 2 if case.by == "accumulate" else len(case.expected.x[0])
    if not len(begins) == len(overs) == len(ends) == wanted:
        said = f"With {case.label}: the grader's marks in virtual time were changed."
        raise bench.lost(case, "sandbox_violation", said, rank)
    layers = lasting(training.LAYER)
    return [
        Stretch(a.until, b.since, c.since, tuple(span.since for span in layers if a.until <= span.since < b.since))
        for a, b, c in zip(begins, overs, ends, strict=True)
    ]


def _steady(bench: RankBench) -> Iterator[tuple[Case, CallResult, int, Stretch, list[Operation]]]:
    """Every rank's last step of the calls that are counted, when buckets are what they will be, and what was posted."""
    for case, result in bench.calls("budget"):
        checks.allowed(bench, case, result)
        for rank in range(case.ranks):
            step = stretches(bench, case, result, rank)[-1]
            yield case, result, rank, step, step.operations(result.trace, rank)


def collectives(bench: RankBench) -> Outcome:
    """Collectives per step: one for each bucket, and one more."""
    for case, _, rank, step, posted in _steady(bench):
        job: Job = case.expected
        bucket = job.bucket_bytes or 25 * 2**20
        allowed = -(-job.gradient_bytes // bucket) + 1
        sends = sum(op.kind == SEND for op in posted)
        count = sum(op.collective for op in posted) - (-sends // (2 * case.ranks - 2))
        if not posted:
            raise _silent(bench, case, rank)
        tally.note("collectives in a step", count, allowed, "collectives", where=case.label,
                   reference=len(job.trained), of="one for each parameter")  # fmt: skip
        if count > allowed:
            habit = ""
            if count >= len(job.trained):
                habit = f" There are {len(job.trained)} parameters: flatten the gradients of a bucket into one tensor."
            elif first := next(
                (op for op in posted if op.name == "broadcast" and op.posted < min(step.layers, default=0)), None
            ):
                habit = (
                    f" One of them is a broadcast of {first.size:,} bytes (line {first.line}), before the backward pass. "
                    "Broadcast parameters and buffers at construction, and never again."
                )
            elif all(op.size <= bucket for op in posted) and max(op.size for op in posted) < job.gradient_bytes:
                habit = (
                    f" No collective has more than {bucket:,} bytes. Fill a bucket until it has bucket_bytes or more."
                )
            message = (
                f"With {case.label}: rank {rank} took part in {count} collectives in one step"
                f"{' (2(N-1) messages count as one)' if sends else ''}. For {job.gradient_bytes:,} bytes of gradients "
                f"and buckets of {bucket:,} bytes, {allowed} are enough.{habit}"
            )
            raise bench.lost(case, "too_many_messages", message, rank, f"at most {allowed}", str(count))
    return bench.picture("budget")


def bytes_sent(bench: RankBench) -> Outcome:
    """Bytes per step: those of a ring all-reduce of the gradients, and 2 % more."""
    for case, result, rank, _, posted in _steady(bench):
        job: Job = case.expected
        n, size = case.ranks, job.gradient_bytes
        groups = result.trace.groups
        sent = sum(checks.sent_by(op, groups.get(op.tag, ())) for op in posted)
        ring = 2 * (n - 1) * size / n
        if not posted:
            raise _silent(bench, case, rank)
        expected, got = f"at most {BUDGET * ring:,.0f} bytes", f"{sent:,} bytes"
        tally.note("bytes a rank sends in a step", sent, BUDGET * ring, "bytes", where=case.label, reference=ring,
                   of="a ring all-reduce of the gradients")  # fmt: skip
        if sent > BUDGET * ring:
            message = (
                f"With {case.label}: rank {rank} sent {sent:,} bytes in one step, {sent / ring:.2f} times the {ring:,.0f} "
                f"bytes of a ring all-reduce of the gradients.{_habit(job, posted, sent / ring)}"
            )
            raise bench.lost(case, "too_many_bytes", message, rank, expected, got)
        if sent < size:
            message = (
                f"With {case.label}: rank {rank} sent only {sent:,} bytes in one step, but its gradients take {size:,} "
                "bytes. Send all of them, in their own dtype."
            )
            raise bench.lost(case, "too_few_bytes", message, rank, f"at least {size:,} bytes", got)
    return bench.picture("budget")


def _habit(job: Job, posted: list[Operation], times: float) -> str:
    if any(op.dtype == "float64" for op in posted):
        return " Some of the bytes travel as float64. Send gradients in their own dtype."
    if gather := next((op.name for op in posted if "gather" in op.name), ""):
        return f" The step calls {gather}: sum the gradients with all_reduce instead."
    frozen = sum(job.values[name].nbytes for name in job.values if job.is_frozen(name))
    if abs(times * job.gradient_bytes - job.gradient_bytes - frozen) < 0.02 * job.gradient_bytes:
        return " The surplus is as large as the frozen parameters. Leave them out: they have no gradient."
    tied = sum(job.values[f"{first}.weight"].nbytes for first in job.tied.values())
    if tied and abs(times * job.gradient_bytes - job.gradient_bytes - tied) < 0.02 * job.gradient_bytes:
        return " The surplus is as large as the tied weights. Send them once: they are one parameter."
    return " Send each gradient once, and nothing else."


def _silent(bench: RankBench, case: Case, rank: int) -> Lost:
    size = case.expected.gradient_bytes
    message = f"With {case.label}: rank {rank} sent nothing in one step. All-reduce its {size:,} bytes of gradients."
    return bench.lost(case, "too_few_bytes", message, rank, "one all-reduce for each bucket", "0 bytes")


def overlap(bench: RankBench) -> Outcome:
    """The first all-reduce is posted before the backward pass reaches the end of its last layer."""
    for case, _, rank, step, posted in _steady(bench):
        if case.expected.bucket_bytes is None or not step.layers:
            continue  # one bucket: there is nothing to overlap with
        reducing = [op for op in posted if op.posted >= step.layers[0] and op.name != "barrier"]
        first = reducing[0].posted if reducing else None
        if first is None or first > step.layers[-1]:
            when = "none" if first is None else f"at {(first - step.begin) / 1e3:.0f} us"
            before = f"before {(step.layers[-1] - step.begin) / 1e3:.0f} us"
            begins = "no all-reduce in the backward pass" if first is None else f"its first all-reduce only {when}"
            large = bool(reducing) and reducing[0].size > case.expected.bucket_bytes
            carries = (
                f" It carries {reducing[0].size:,} bytes, and bucket_bytes is {case.expected.bucket_bytes:,}."
                if large
                else ""
            )
            message = (
                f"With {case.label}: rank {rank} begins {begins}. It must begin {before}, when the backward pass "
                f"reaches the first layer.{carries} Fill the buckets from the last layer's parameters on. Begin each bucket's "
                "all-reduce in a hook, as soon as its gradients are there, with async_op=True."
            )
            raise bench.lost(case, "no_overlap", message, rank, before, when)
        tally.note("first all-reduce of the backward pass", (first - step.begin) / 1e9,
                   (step.layers[-1] - step.begin) / 1e9, "s", where=case.label)  # fmt: skip
    return bench.picture("budget")


def overlaps_again(bench: RankBench, case: Case, result: CallResult, rank: int) -> None:
    """Raise Lost where the plain step after the accumulated one no longer begins to send in its backward pass."""
    step = stretches(bench, case, result, rank)[-1]
    reducing = [op.posted for op in step.operations(result.trace, rank) if op.name != "barrier"]
    if not reducing or reducing[0] > step.layers[-1]:
        message = (
            f"With {case.label}: in the step after no_sync(), rank {rank} begins no all-reduce before the backward "
            "pass reaches the first layer. Let the hooks send again, as they did before no_sync()."
        )
        raise bench.lost(case, "no_overlap", message, rank)
