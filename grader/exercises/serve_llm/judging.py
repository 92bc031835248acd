"""The judges: each reads the records of its traces, and loses points for what its own rules find."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from grader import tally
from grader.exercises.serve_llm import reference, rules
from grader.lost import Lost
from grader.ranks.program import CallResult
from grader.serving.follow import Follow
from grader.serving.frames import Finding
from grader.serving.run import TICK, Trace
from grader.serving.shown import picture
from grader.trace.lanes import Lanes
from grader.verdict import Kind
from grader.worlds.cases import Case
from grader.worlds.ranks import RankBench

LEAST = 0.9  # of the reference's throughput
KINDS: dict[str, Kind] = {
    "tokens": "wrong_result", "reads": "wrong_result", "form": "wrong_result", "stands": "deadlock", "slots": "race",
    "budget": "not_available", "fill": "too_slow", "order": "not_available", "preempt": "not_available",
    "again": "too_slow", "prefix": "too_slow", "waits": "not_available", "record": "sandbox_violation",
}  # fmt: skip


@dataclass(frozen=True)
class Served:
    """A trace, what each of its requests must get, and whether there are blocks for all of them."""

    trace: Trace
    right: tuple[tuple[int, ...], ...]
    ample: bool


def follow(served: Served, steps: object) -> Follow:
    """The record of a run, read and judged."""
    run = Follow(served.trace, served.right)
    for frame in run.read(steps):
        rules.judge(run, frame, served.ample)
    return run


def right(groups: Iterable[str], about: Iterable[str]) -> Callable[[RankBench], Lanes]:
    """The check of these groups: what its rules find, and whatever ends a run."""
    wanted, names = frozenset(about), tuple(groups)

    def judge(bench: RankBench) -> Lanes:
        shown: Lanes | None = None
        for group in names:
            for case, result in bench.calls(group):
                run = follow(case.expected, result.returned[0])
                raise_first(bench, case, run, wanted)
                shown = drawn(bench, case, run)
        assert shown is not None
        return shown

    return judge


def drawn(bench: RankBench, case: Case, run: Follow, finding: Finding | None = None) -> Lanes:
    """The run's picture."""
    trace = run.trace
    label = f"{case.label}; {trace.blocks} blocks of {trace.block_size} slots; your run, step by step"
    wrong = (finding.request, finding.step) if finding else None
    return replace(picture(run, label, wrong), outcome=bench.outcome(case))


def raise_first(bench: RankBench, case: Case, run: Follow, wanted: frozenset[str]) -> None:
    """Raise Lost for the first finding that the check is about, or that ended the run."""
    finding = next((each for each in run.findings if each.fatal or each.rule in wanted), None)
    if finding is None:
        return
    message = f'In the trace "{case.label}": {finding.text}.'
    if finding.rule not in wanted and finding.rule != "record":
        message = f"Not judged, because the run goes wrong before. {message}"
    loss = bench.lost(case, KINDS[finding.rule], message, None, finding.expected, finding.got)
    raise Lost(loss.diagnosis, drawn(bench, case, run, finding))


def throughput(group: str, built: Mapping[str, Iterable[str]]) -> Callable[[RankBench], Lanes]:
    """Tokens a second, at least 0.9 of the reference's.

    Where the traces of a group that is `built` for some rules show a mistake against these, the speed does not count:
    how much such a mistake costs in drawn requests is luck, and the other check tells of it.
    """

    def judge(bench: RankBench) -> Lanes:
        shown: Lanes | None = None
        for case, result in bench.calls(group):
            run = follow(case.expected, result.returned[0])
            raise_first(bench, case, run, frozenset())
            if any(_told(bench, each, frozenset(about)) for each, about in built.items()):
                shown = drawn(bench, case, run)
            else:
                shown = _fast_enough(bench, case, result, run)
        assert shown is not None
        return shown

    return judge


def _told(bench: RankBench, group: str, wanted: frozenset[str]) -> bool:
    """Whether the traces of a group show a mistake against these rules, or were not served to their end."""
    try:
        runs = [follow(case.expected, result.returned[0]) for case, result in bench.calls(group)]
    except Lost:
        return True
    return any(finding.fatal or finding.rule in wanted for run in runs for finding in run.findings)


def _fast_enough(bench: RankBench, case: Case, result: CallResult, run: Follow) -> Lanes:
    served: Served = case.expected
    count = sum(len(tokens) for tokens in served.right)
    first = next(frame.begin for frame in run.frames if frame.events)
    last = max(frame.end for frame in run.frames if frame.returned)
    seconds = (last - first) * TICK
    best = count / reference.seconds(served.trace, served.right)
    mine, shown = count / seconds, drawn(bench, case, run)
    shown.subtitle += f"; {mine:,.0f} tokens a second"
    tally.note("throughput", mine, LEAST * best, "tokens/s", where=case.label, at_least=True, reference=best,
               of="the reference")  # fmt: skip
    if mine < LEAST * best:
        steps = [frame for frame in run.frames if frame.parts]
        size = sum(frame.tokens for frame in steps) / len(steps)
        again = sum(part.count for frame in steps for part in frame.parts if not part.decodes)
        again -= sum(len(request.prompt) for request in served.trace.requests)
        held = sum(len({b for table in frame.held.values() for b in table}) for frame in steps) / len(steps)
        message = (
            f'In the trace "{case.label}": '
            f"{mine:,.0f} tokens a second in {len(steps)} steps. At least {LEAST * best:,.0f} are "
            f"needed, {LEAST:g} of the reference's {best:,.0f}. A step has {size:.1f} of at most {served.trace.budget} tokens "
            f"in the mean, and requests use {held:.0f} of {served.trace.blocks} blocks. "
        )
        if again > 0.2 * count:
            message += f"{again} tokens are computed more than once, after preemptions. "
        message += (
            "Let a request join as soon as there are blocks for its prompt, take further blocks only when they are needed, "
            "and free them when it is over."
        )
        texts = f"{LEAST * best:,.0f} tokens/s", f"{mine:,.0f} tokens/s"
        raise Lost(bench.lost(case, "too_slow", message, None, *texts).diagnosis, shown)
    return shown
