"""gang_scheduler's reference next to published policies, on the traces that its utilization is judged on.

    python benchmarks/scheduling.py [--seeds N]

FIFO starts the first of the queue or nobody. EASY backfill protects the first job (Lifka 1995), conservative backfill
every job before it in the queue (Mu'alem and Feitelson 2001, section 2). These three have no quotas and preempt nobody;
the queue is by priority, then submit, for all. Bounds are up to five times the actual seconds. Utilization is as in the
exercise. A job waits from its submit to the start of the run that finished, so that what preemption costs is in it.
The traces are deterministic: the numbers are the same on every machine.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from statistics import fmean

from _common import save

from grader.exercise import Draw
from grader.exercises.gang_scheduler import reference, rules
from grader.exercises.gang_scheduler.traces import LOADED, Trace, cases
from grader.scheduling import Job
from grader.scheduling.cluster import Cluster

Act = Callable[[Cluster], None]


def start(cluster: Cluster, job: Job) -> None:
    cluster.carry_out(("start", job.id, reference.place(cluster, job)))


def fifo(cluster: Cluster) -> None:
    """The first of the queue, again and again."""
    while (job := next(rules.waiting(cluster), None)) is not None and job.nodes <= cluster.free_nodes:
        start(cluster, job)


def easy(cluster: Cluster) -> None:
    """FIFO, and whatever does not hold up the first."""
    fifo(cluster)
    first, *others = [*rules.waiting(cluster)] or [None]
    for job in others:
        assert first is not None
        if job.nodes <= cluster.free_nodes and rules.may_go_before(cluster, job, rules.reservation(cluster, first)):
            start(cluster, job)


def conservative(cluster: Cluster) -> None:
    """Every job in queue order gets the earliest time at which its nodes are free for its bound; those of now start."""
    fifo(cluster)
    steps = {cluster.now: cluster.free_nodes}  # how many more nodes are free from a time on
    for run in cluster.running.values():
        end = max(run.since + run.job.seconds, cluster.now + 1e-9)  # it has not finished yet
        steps[end] = steps.get(end, 0) + run.job.nodes
    for job in list(rules.waiting(cluster)):
        at = _earliest(steps, job)
        if at == cluster.now:
            start(cluster, job)
        for edge, change in ((at, -job.nodes), (at + job.seconds, job.nodes)):
            steps[edge] = steps.get(edge, 0) + change


def _earliest(steps: Mapping[float, int], job: Job) -> float:
    free, since = 0, None
    for time in sorted(steps):
        if since is not None and time >= since + job.seconds:
            break
        free += steps[time]
        if free < job.nodes:
            since = None
        elif since is None:
            since = time
    assert since is not None
    return since


def rule_1_and_2(cluster: Cluster) -> None:
    """The exercise's rules without backfill."""
    reference.act(cluster, backfills=False)


def the_reference(cluster: Cluster) -> None:
    """The exercise's three rules."""
    reference.act(cluster)


POLICIES: dict[str, Act] = {
    "FIFO": fifo,
    "EASY backfill": easy,
    "conservative backfill": conservative,
    "rules 1 and 2, no backfill": rule_1_and_2,
    "the reference: quotas, preemption, EASY": the_reference,
}


def play(trace: Trace, act: Act) -> tuple[float, float]:
    """The utilization, and the mean wait in seconds."""
    cluster, submits, starts = trace.cluster(), dict[str, float](), dict[str, float]()
    while (call := cluster.next()) is not None:
        if call.name == "submit":
            submits[call.what] = call.now
        act(cluster)
        starts.update({name: run.since for name, run in cluster.running.items()})
    assert len(cluster.finish) == len(trace.jobs)
    return reference.utilization(cluster), fmean(starts[name] - submits[name] for name in submits)


def main() -> None:
    """Print the table and write it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5, help="20 traces for each")
    seeds = parser.parse_args().seeds
    traces = [c.expected for seed in range(1, seeds + 1) for c in cases(Draw(seed)) if c.group == LOADED]
    rows = []
    for name, act in POLICIES.items():
        found = [play(trace, act) for trace in traces]
        rows.append({"policy": name, "utilization": fmean(u for u, _ in found), "wait": fmean(w for _, w in found)})
    print(f"{len(traces)} traces\n{'policy':42}{'utilization':>12}{'mean wait':>14}")
    for row in rows:
        print(f"{row['policy']:42}{row['utilization']:12.1%}{row['wait'] / 3600:12.1f} h")
    save("scheduling", {"traces": len(traces), "rows": rows})


if __name__ == "__main__":
    main()
