"""The picture of a run of rollout_sync: a lane for each rank, with the versions that samples and steps are of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from grader.exercises.rollout_sync.history import History, Made, read, stretches, untold
from grader.exercises.rollout_sync.unfinished import WORDS, lane_names
from grader.lost import Lost
from grader.ranks.program import CallResult
from grader.trace.gantt import Bar, Became, Chart
from grader.verdict import Kind
from grader.worlds.cases import Case
from grader.worlds.ranks import RankBench

WIDE = 0.05  # of the picture: in shorter bars there is no room for the version
LEAST = 0.004  # of the picture: shorter idle stretches are not seen


@dataclass(frozen=True)
class Run:
    """A finished call, as its judges see it."""

    bench: RankBench
    case: Case
    result: CallResult
    history: History

    def lost(self, kind: Kind, message: str, rank: int | None = None, expected: str = "", got: str = "") -> Lost:
        """What is raised, with the picture of the run."""
        loss = self.bench.lost(self.case, kind, f"With {self.case.label}: {message}", rank, expected, got)
        return Lost(loss.diagnosis, chart(self.case, self.history))


def in_messages(run: Run) -> None:
    """Raise Lost where params came to a generator otherwise."""
    found = untold(run.history, run.result.trace)
    if found is not None:
        rank, versions, received = found
        message = (
            f"rank {rank} generated with {versions} newer versions, but received only {received:,} bytes. A version has "
            f"{run.history.given.start.nbytes:,} bytes. Send params in messages: ranks share no memory."
        )
        raise run.lost("sandbox_violation", message, rank)


def judged(group: str) -> Callable[[Callable[[Run], None]], Callable[[RankBench], Chart]]:
    """Makes a check of a judge of one run: it is asked about each of `group`, and the last one is drawn if all are right."""

    def made(judge: Callable[[Run], None]) -> Callable[[RankBench], Chart]:
        def check(bench: RankBench) -> Chart:
            drawn = Chart(())
            for case, result, history in read(bench, group):
                judge(Run(bench, case, result, history))
                drawn = chart(case, history)
            return drawn

        return check

    return made


def chart(case: Case, history: History) -> Chart:
    """Trainers above, generators below them."""
    plan = history.plan
    names = lane_names(plan)
    ends = [made.until for made in history.made if made.whole]
    ends += [until for spans in history.spans for _, until in spans]
    drawn = Chart(names, end=max([0.1, plan.dies_at, *ends]), subtitle=case.label, words=WORDS)
    for trainer, spans in enumerate(history.spans):
        for step, (since, until) in enumerate(spans):
            drawn.bars.append(Bar(names[trainer], since, until, f"{step}\u2192{step + 1}"))
    used = {used.made for used in history.used}
    for made in history.made:
        until = made.until if made.whole else plan.dies_at
        became: Became = "died" if not made.whole else "done" if made in used else "again"
        wide = (until - made.since) / drawn.end >= WIDE
        drawn.bars.append(Bar(names[made.rank], made.since, until, _words(made) if wide else str(made.prompt), became))
    for rank in plan.of_generators:
        if rank == plan.killed:
            drawn.gone[names[rank]] = plan.dies_at
            continue
        for a, b in stretches(history, rank, drawn.end):
            if b - a > LEAST * drawn.end:
                drawn.bars.append(Bar(names[rank], a, b, "", "still"))
    return drawn


def _words(made: Made) -> str:
    return f"{made.prompt} v{made.version}" if made.version >= 0 else f"{made.prompt} v?"
