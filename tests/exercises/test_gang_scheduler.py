"""The judge of gang_scheduler: the statement's example, what is free, logs that cannot be, and utilization."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from grader import submission
from grader.exercise import Draw
from grader.exercises.gang_scheduler import in_box, reference, rules
from grader.exercises.gang_scheduler.judging import Judged, judge
from grader.exercises.gang_scheduler.traces import LOADED, Trace, cases
from grader.scheduling import Start
from grader.scheduling.cluster import Cluster

NOTEBOOK = Path(__file__).parents[2] / "solutions" / "19-clusters" / "gang_scheduler.ipynb"
RACKS, QUOTAS = [["a1", "a2", "a3"], ["b1", "b2", "b3"]], {"research": 4, "product": 2}
JOBS: list[list[Any]] = [
    [0, "tune", "product", 2, 0, 60, 40],
    [1, "sweep", "product", 1, 0, 20, 20],
    [2, "serve", "product", 2, 1, 120, 90],
    [5, "train", "research", 3, 0, 40, 40],
    [6, "large", "research", 4, 5, 30, 20],
    [22, "probe", "product", 1, 0, 15, 10],
    [33, "check", "product", 1, 0, 30, 10],
]
EXAMPLE = Trace("", "the example", RACKS, QUOTAS, JOBS, [[50, 70, "a1"]])
TWO = [["n1", "n2"]]
Answers = list[list[list[Any]]]


@pytest.fixture(scope="module")
def scheduler() -> Any:
    names: dict[str, Any] = {}
    exec(submission.read(NOTEBOOK, ("Scheduler",)).source, names)
    return names["Scheduler"]


def answers(trace: Trace, act: Callable[[Cluster], list[list[Any]]] = reference.act) -> Answers:
    cluster, found = trace.cluster(), []
    while cluster.next() is not None:
        found.append(act(cluster))
    return found


def clean(judged: Judged) -> bool:
    return not any((judged.mistakes, judged.broken, judged.forged, judged.unfinished))


def small(*jobs: list[Any], quotas: dict[str, int], racks: list[list[str]] = TWO) -> Trace:
    return Trace("", "small", racks, quotas, list(jobs), [])


def test_the_worked_example(scheduler: Any) -> None:
    trace = EXAMPLE.case.arguments[0][0]
    found = in_box.played(scheduler, trace)
    shown = [[(action[0], action[1]) for action in answer] for answer in found]
    assert shown[3] == [("preempt", "tune"), ("start", "train")]
    assert shown[7] == shown[8] == []
    assert shown[10] == [("start", "tune"), ("start", "check")]
    assert shown[12] == [("preempt", "tune"), ("start", "large")]
    assert clean(judge(EXAMPLE.cluster(), found))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_reference_makes_no_mistake(seed: int) -> None:
    for case in cases(Draw(seed)):
        assert clean(judge(case.expected.cluster(), answers(case.expected))), case.label


def test_the_first_time_of_the_first_job_by_the_bounds() -> None:
    cluster = EXAMPLE.cluster()
    while cluster.now < 6:
        cluster.next()
        reference.act(cluster)
    assert rules.reservation(cluster, cluster.known["large"])[1:] == (45, 4)
    assert [run.job.id for run in rules.borrowed(cluster)] == ["sweep"]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda found: found[:-1], "no answer"),
        (lambda found: [*found, []], "never made"),
        (lambda found: [], "no answer"),
        (lambda found: None, "not lists"),
        (lambda found: [[["start", "tune"]], *found[1:]], "not lists"),
        (lambda found: [[["start", "tune", "a1"]], *found[1:]], "not lists"),
        (lambda found: [[["start", 3, ["a1"]]], *found[1:]], "not lists"),
    ],
)
def test_a_log_that_cannot_be_is_forged(change: Callable[[Answers], Any], why: str) -> None:
    assert why in judge(EXAMPLE.cluster(), change(answers(EXAMPLE))).forged


def test_what_cannot_be_carried_out_ends_the_play() -> None:
    found = answers(EXAMPLE)
    found[1] = [["start", "sweep", ["a1"]]]
    judged = judge(EXAMPLE.cluster(), found[:2])
    assert judged.broken
    assert "job tune runs on node a1" in judged.mistakes["nodes"].text
    assert judge(EXAMPLE.cluster(), found).forged  # it went on


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (None, "returned a value of type NoneType. Return a list of Start and Preempt"),
        ([("n1", "n2")], "a list with a value of type tuple. Return a list of Start and Preempt"),
        ([Start("j", "n1,n2")], "a Start whose nodes are of type str. Give Start a list of node names"),  # type: ignore[arg-type]
    ],
)
def test_an_answer_of_another_form_is_told_as_what_it_is(answer: Any, told: str) -> None:
    class Once:
        def __init__(self, racks: Any, quotas: Any) -> None: ...

        def submit(self, now: float, job: Any) -> Any:
            return answer

    trace = small([0, "j", "t", 2, 0, 10, 10], quotas={"t": 2})
    judged = judge(trace.cluster(), in_box.played(Once, trace.case.arguments[0][0]))
    assert told in judged.mistakes["nodes"].text


def test_an_order_that_takes_nothing_from_anybody_is_free() -> None:
    """At 5 s rule 1 starts owner before the first of the queue. Both fit, and both must start."""
    jobs = [[0, "wall", "B", 3, 9, 5, 5], [0, "plug", "C", 1, 9, 9, 9], [1, "first", "A", 1, 3, 5, 5]]
    jobs.append([2, "owner", "B", 1, 0, 5, 5])
    trace = small(*jobs, quotas={"A": 0, "B": 3, "C": 1}, racks=[["n1", "n2", "n3", "n4"]])
    begin = [[["start", "wall", ["n1", "n2", "n3"]]], [["start", "plug", ["n4"]]], [], []]
    first, owner = ["start", "first", ["n1"]], ["start", "owner", ["n2"]]
    for both in ([owner, first], [first, owner]):
        assert clean(judge(trace.cluster(), [*begin, both, [], [], []]))
    assert set(judge(trace.cluster(), [*begin, [first], [owner], [], []]).mistakes) == {"quota"}


def test_a_later_job_within_quota_before_an_earlier_one_is_a_mistake_only_if_it_takes_its_nodes() -> None:
    jobs = [[0, "wall", "W", 2, 0, 5, 5], [1, "b", "B", 1, 0, 5, 5], [2, "c", "C", 1, 9, 5, 5]]
    quotas = {"W": 2, "B": 0, "C": 0}
    trace = small(*jobs, quotas=quotas)
    both = [[["start", "wall", ["n1", "n2"]]], [], [], [["start", "b", ["n1"]], ["start", "c", ["n2"]]], [], []]
    assert not judge(trace.cluster(), both).mistakes
    one = [[["start", "wall", ["n1", "n2"]]], [], [], [["start", "b", ["n1"]]], [["start", "c", ["n1"]]], []]
    assert set(judge(trace.cluster(), one).mistakes) == {"queue"}


def test_a_job_that_is_preempted_and_started_again_at_once_is_a_mistake() -> None:
    trace = small([0, "one", "A", 1, 0, 5, 5], [1, "two", "A", 1, 0, 5, 5], quotas={"A": 0})
    again = [["preempt", "one"], ["start", "one", ["n1"]], ["start", "two", ["n2"]]]
    assert "preemption" in judge(trace.cluster(), [[["start", "one", ["n1"]]], again, [], []]).mistakes


def mean(traces: list[Trace], act: Callable[[Cluster], list[list[Any]]]) -> float:
    found = [judge(trace.cluster(), answers(trace, act)).cluster for trace in traces]
    return fmean(reference.utilization(cluster) for cluster in found)


@pytest.mark.heavy
def test_schedulers_without_backfill_use_the_nodes_clearly_less() -> None:
    for seed in (1, 2):
        traces = [case.expected for case in cases(Draw(seed)) if case.group == LOADED]
        best = mean(traces, reference.act)
        assert mean(traces, lambda cluster: reference.act(cluster, backfills=False)) < 0.93 * best
