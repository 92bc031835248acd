"""Scheduler: all of a job's nodes or none, quotas with borrowing and preemption, racks, backfill, failures.

Everything is in virtual time. In the box a scheduler answers calls (see `in_box`); here the same cluster is played once
more with its answers, and each call is held against the rules (see `judging`). EASY backfill: Lifka 1995; quotas that
are lent and taken back as by Kueue's and YARN's preemption.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from statistics import fmean

from grader import says, tally
from grader.exercise import Check, Exercise
from grader.exercises.common.plain import BROKEN_OFF
from grader.exercises.gang_scheduler import reference
from grader.exercises.gang_scheduler.judging import Judged, Mistake, judge
from grader.exercises.gang_scheduler.traces import LOADED, MIXED, MIXED_FAILURES, Trace, cases
from grader.lost import Lost
from grader.ranks.program import Function, Limits
from grader.trace.schedule import Schedule, around
from grader.verdict import Diagnosis, Kind
from grader.worlds.cases import Case
from grader.worlds.ranks import RankBench, Ranks

# Of the reference's. Over 30 seeds, these are legal schedulers that hardly backfill
# (none, only jobs of one node, only at a submit, only the second in the queue): at most 0.885. One half of rule 3 reaches
# 0.905, and all of it, in any order, 0.93.
LEAST_UTILIZATION = 0.895
SHARED = (MIXED, LOADED)  # groups that are built for no rule
RULES = ("nodes", "racks", "quota", "preemption", "queue", "backfill")
LIMITS = Limits(cpu_seconds=5, load_cpu_seconds=5)

Play = tuple[Case, Judged]


# ---- plays


def _plays(bench: RankBench, group: str) -> Iterator[Play]:
    """Every play of a group. Raises Lost at one that did not end, and at one that is impossible."""
    kept: dict[Case, Judged] = bench.__dict__.setdefault("kept_plays", {})
    try:
        for case, result in bench.calls(group):
            if case not in kept:
                kept[case] = judge(case.expected.cluster(), result.returned[0])
            if kept[case].forged:
                text = (
                    f"{case.label}. The log of this run is not a possible one: {kept[case].forged}. Answer each call by "
                    "what it returns, and leave the process that calls alone."
                )
                raise _lost(bench, case, "sandbox_violation", text, "one answer for each call", kept[case].forged)
            yield case, kept[case]
    except Lost as loss:
        raise _explained(loss) from None


def _explained(loss: Lost) -> Lost:
    """What a play that did not end was about."""
    if loss.picture is None or not hasattr(loss.picture, "result") or loss.picture.result:
        return loss
    if loss.diagnosis.kind not in BROKEN_OFF:
        return loss
    case: Case = loss.picture.case
    text = loss.diagnosis.message
    if loss.diagnosis.kind == "timeout":
        text += f' This was in the trace "{case.label}". A trace may take {LIMITS.cpu_seconds:g} s of CPU time, or less if an earlier one took longer.'
    return Lost(replace(loss.diagnosis, message=text), None)


def _shared_plays(bench: RankBench, group: str) -> Iterator[Play]:
    """The plays of a group that another check is about: up to where there are no more."""
    try:
        yield from _plays(bench, group)
    except Lost:
        return


def _drawn(case: Case, judged: Judged, mistake: Mistake | None = None) -> Schedule:
    trace: Trace = case.expected
    picture = Schedule(trace.racks, tuple(trace.quotas), judged.blocks, judged.outages, subtitle=_facts(trace))
    if mistake is None:
        return picture
    picture.told = mistake.jobs
    return around(picture, mistake.call.now)


def _facts(trace: Trace) -> str:
    quotas = says.listed(f"{team} {quota}" for team, quota in trace.quotas.items())
    return f"{trace.label}; quotas in nodes: {quotas}"


def _lost(bench: RankBench, case: Case, kind: Kind, text: str, expected: str, got: str, picture: object = None) -> Lost:
    found = Diagnosis(kind, text, None, bench.program.file, None, expected or None, got or None)
    return Lost(found, picture)


def _broke(bench: RankBench, case: Case, judged: Judged, mistake: Mistake, before: str = "") -> Lost:
    """What is lost by a mistake: when, in which call, and what the rule wanted."""
    call = mistake.call
    said = f"submit(job {call.what})" if call.name == "submit" else f"{call.name}({call.what})"
    also = f", which ended job {call.ended}" if call.name == "failed" and call.ended else ""
    text = f'{before}In the trace "{case.label}", see the call {said} at {call.now:,.10g} s{also}. {mistake.text}'
    kind: Kind = "wrong_result"
    return _lost(bench, case, kind, text, mistake.expected, mistake.got, _drawn(case, judged, mistake))


# ---- the checks


def _rule(rule: str) -> Callable[[RankBench], Schedule]:
    """No mistake against a rule in any trace without failures. Those of its own group must be played to their ends."""

    def judge_rule(bench: RankBench) -> Schedule:
        plays = list(_plays(bench, rule))
        built = (play for group in RULES if group != rule for play in _shared_plays(bench, group))
        for case, judged in (*plays, *built, *_drawn_plays(bench)):
            if rule in judged.mistakes:
                raise _broke(bench, case, judged, judged.mistakes[rule])
        for case, judged in plays:
            _whole(bench, case, judged)
        return _drawn(*plays[0])

    return judge_rule


def _whole(bench: RankBench, case: Case, judged: Judged) -> None:
    """Raise Lost where an answer ended a play that must be judged to its end."""
    if not judged.broken:
        return
    mistake = judged.mistakes["nodes"]
    if case.group not in (*RULES, *SHARED):  # which the check "nodes" tells of
        raise _broke(bench, case, judged, mistake, "Not judged, because an answer is impossible. ")
    text = (
        f'Not judged, because an answer in the trace "{case.label}" cannot be carried out. At '
        f'{mistake.call.now:,.10g} s, call {mistake.call.name}: {mistake.got}. See the check "nodes".'
    )
    raise _lost(bench, case, "wrong_result", text, mistake.expected, mistake.got, _drawn(case, judged, mistake))


def _told(bench: RankBench) -> set[str]:
    """The rules against which there are mistakes in situations that are built for one, without failures."""
    return {rule for group in RULES for _, judged in _shared_plays(bench, group) for rule in judged.mistakes}


def _drawn_plays(bench: RankBench) -> Iterator[Play]:
    """Those that are built for no rule: none where the built ones show a mistake, whatever its rule. It shows in some
    drawn traces as one against another rule, and in others not."""
    if not _told(bench):
        yield from (play for group in SHARED for play in _shared_plays(bench, group))


def _failures(bench: RankBench) -> Schedule:
    """With failures there are no other mistakes than without them."""
    plays = list(_plays(bench, "failures"))
    told = _told(bench)
    if not told:
        told = {rule for _, judged in _drawn_plays(bench) for rule in judged.mistakes}
        plays += _plays(bench, MIXED_FAILURES)
    for case, judged in plays:
        fresh = [mistake for rule, mistake in judged.mistakes.items() if rule not in told]
        if fresh:
            raise _broke(bench, case, judged, min(fresh, key=lambda mistake: mistake.call.number))
    return _drawn(*plays[0])


def _ends(bench: RankBench) -> Schedule:
    """Every job finishes."""
    plays = list(_plays(bench, "ends"))
    for case, judged in plays:
        _whole(bench, case, judged)
    mixed = [] if _told(bench) else [play for play in _plays(bench, MIXED) if not play[1].broken]
    for case, judged in (*plays, *mixed):
        if judged.unfinished:
            cluster = judged.cluster
            job = cluster.known[judged.unfinished[0]]
            starts = [block for block in judged.blocks if block.job == job.id]
            how = f"It was started {says.counted(len(starts), 'time')}"
            how += f", the last time at {starts[-1].begin:,.10g} s." if starts else "."
            text = (
                f'In the trace "{case.label}", nothing happens any more at {cluster.now:,.10g} s, and '
                f"{says.counted(len(judged.unfinished), 'job')} of {len(cluster.known)} did not finish. One is job {job.id}, "
                f"which needs {says.counted(job.nodes, 'node')}. {how} {says.counted(cluster.free_nodes, 'node')} "
                f"{'is' if cluster.free_nodes == 1 else 'are'} free. A job that was preempted or lost a node is waiting "
                "again, however often that happens."
            )
            picture = _drawn(case, judged)
            picture.told = judged.unfinished
            raise _lost(bench, case, "not_available", text, "every job finishes", f"job {job.id} waits", picture)
    return _drawn(*plays[0])


def _utilization(bench: RankBench) -> Schedule:
    """Of the reference's utilization, in the mean over all traces."""
    plays = list(_plays(bench, LOADED))
    for case, judged in plays:
        _whole(bench, case, judged)
    pairs = []
    for case, judged in plays:
        best = reference.utilization(reference.run(case.expected.cluster()))
        pairs.append((reference.utilization(judged.cluster), best, case, judged))
    mine, theirs = fmean(pair[0] for pair in pairs), fmean(pair[1] for pair in pairs)
    tally.note("utilization", 100 * mine, 100 * LEAST_UTILIZATION * theirs, "%", at_least=True, reference=100 * theirs,
               of="backfill in queue order", where=f"{len(pairs)} traces")  # fmt: skip
    worst = min(pairs, key=lambda pair: pair[0] / pair[1])
    picture = _drawn(worst[2], worst[3])
    if mine < LEAST_UTILIZATION * theirs:
        text = (
            f"Over {len(pairs)} traces of a saturated cluster, the nodes were used {mine:.1%} of the time in the mean. The "
            f"reference uses them {theirs:.1%}, and at least {LEAST_UTILIZATION * theirs:.1%} is expected "
            f"({LEAST_UTILIZATION:g} of it). The largest difference is in {worst[2].label}: {worst[0]:.1%} instead of "
            f"{worst[1]:.1%}. {_idle(worst[3])}While the first in the queue waits, let other jobs go before it by rule 3: "
            "those that end in time, and those whose nodes it does not need then."
        )
        texts = f"at least {LEAST_UTILIZATION * theirs:.1%}", f"{mine:.1%}"
        raise _lost(bench, worst[2], "too_slow", text, *texts, picture=picture)
    return picture


def _idle(judged: Judged) -> str:
    names = judged.unfinished
    return f"There, {says.counted(len(names), 'job')} did not finish. " if names else ""


EXERCISE = Exercise(
    name="gang_scheduler",
    chapter="19",
    title="A gang scheduler with quotas, preemption and backfill",
    minutes=90,
    difficulty=3,
    cost="seconds",
    world=Ranks((Function("Scheduler", ("racks", "quotas")),), cases, limits=LIMITS),
    checks=(
        Check("nodes", "All of a job's nodes or none: every answer can be carried out", 3, _rule("nodes")),
        Check("racks", "One rack, if some rack has enough free nodes", 2, _rule("racks")),
        Check("quota", "A job within its team's quota starts, if need be by preemption", 4, _rule("quota")),
        Check("preemption", "Preempts exactly the jobs that rule 1 names", 4, _rule("preemption")),
        Check("queue", "Failed jobs, priority, submit: the first in the queue starts", 3, _rule("queue")),
        Check("backfill", "No job goes before the first and holds it up", 4, _rule("backfill")),
        Check("failures", "Nodes fail and are repaired, and their jobs begin anew", 3, _failures),
        Check("ends", "Nobody waits forever", 2, _ends),
        Check("utilization", "At least 89.5 % of the reference's utilization", 3, _utilization),
    ),
)
