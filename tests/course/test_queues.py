"""The queue of chapter 19: no node is given twice, nobody starts in part, and what each policy promises."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from courselib import queues
from courselib.queues import Job, Running

NODES = 12
JOBS = st.lists(st.tuples(st.integers(1, NODES), st.floats(0.1, 9), st.floats(0, 20)), min_size=1, max_size=25).map(
    lambda drawn: [Job(str(number), *each) for number, each in enumerate(drawn)]
)


def fifo(queue: Sequence[Job], free: int, running: Running, now: float) -> Job | None:
    return queue[0] if queue and queue[0].nodes <= free else None


def first_that_fits(queue: Sequence[Job], free: int, running: Running, now: float) -> Job | None:
    return next((job for job in queue if job.nodes <= free), None)


@given(jobs=JOBS, policy=st.sampled_from([fifo, first_that_fits]))
def test_every_job_runs_whole_and_no_node_twice(jobs: list[Job], policy: queues.Policy) -> None:
    told = queues.scheduled(jobs, NODES, policy)
    assert set(told.started) == set(jobs)
    assert all(len(set(nodes)) == job.nodes and began >= job.at for job, (began, nodes) in told.started.items())
    for boxes in told.rows.values():
        assert all(first[1] <= then[0] for first, then in pairwise(boxes))
    assert 0 < told.utilization <= 1 + 1e-9


@given(jobs=JOBS)
def test_first_in_first_out_starts_in_order(jobs: list[Job]) -> None:
    told = queues.scheduled(jobs, NODES, fifo)
    begun = [told.started[job][0] for job in sorted(jobs, key=lambda job: job.at)]
    assert begun == sorted(begun)


def test_pods_that_are_placed_in_turn_can_block_each_other() -> None:
    two = [Job("A", 12, 1.0), Job("B", 12, 1.0)]
    assert list(queues.pod_by_pod(two, 16).values()) == [8, 8]
    assert list(queues.pod_by_pod(two, 24).values()) == [12, 12]


def test_a_trace_brings_as_much_work_as_is_asked_for() -> None:
    jobs = queues.drawn(400, 16, seed=1, load=0.5)
    work = sum(job.nodes * job.hours for job in jobs[:-1])
    assert abs(work / (16 * jobs[-1].at) - 0.5) < 0.01
