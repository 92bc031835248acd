"""What cannot be judged gives no points and says why; it neither passes nor breaks the grading."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from grader.authoring import verdicts, wrong
from grader.exercise import SCHEDULES, Draw, Grading
from grader.grading import grade, only
from grader.lost import Lost
from grader.ranks import faults
from grader.ranks.engines import Engines
from grader.ranks.program import Function, Strided
from grader.registry import find
from grader.sandbox.warm import Box, Warm
from grader.submission import Submission
from grader.verdict import CheckResult
from grader.worlds.cases import Case
from grader.worlds.ranks import Ranks

IN_A_THREAD = """

_inner = hierarchical_all_reduce


def hierarchical_all_reduce(tensor, ranks_per_node):
    import threading

    thread = threading.Thread(target=_inner, args=(tensor, ranks_per_node))
    thread.start()
    thread.join()
"""


@pytest.mark.heavy
def test_a_speed_that_cannot_be_simulated_gives_no_points(engines: Engines) -> None:
    right = wrong.right("hierarchical_all_reduce")[0].read_text()
    exercise = find("hierarchical_all_reduce")
    verdict = grade(exercise, Submission(right + IN_A_THREAD, "a.py"), engines, 1)
    lost = {check.name: check for check in verdict.checks if check.status != "pass"}
    assert list(lost) == ["speed"], lost
    found = lost["speed"].diagnosis
    assert found is not None
    assert (lost["speed"].status, lost["speed"].points, found.kind) == ("skipped", 0, "unsupported_engine")
    assert "cannot be simulated (it communicates in a thread that it started)" in found.message


@pytest.mark.heavy
def test_without_the_simulator_a_speed_is_not_run(engines: Engines) -> None:
    right = wrong.right("hierarchical_all_reduce")[0].read_text()
    verdict = grade(find("hierarchical_all_reduce"), Submission(right, "a.py"), engines, 1, "gloo")
    skipped = [check.name for check in verdict.checks if check.status == "skipped"]
    assert skipped == ["speed"]


LAST_OF_TWO = """\
import torch.distributed as dist

def f(x):
    x += 1
    if dist.get_rank() == 0:
        try:
            dist.recv(x, 1)
        except RuntimeError as error:
            return str(error)
    else:
        dist.send(2 * x, 0)
"""


def _with_and_without_a_death(_: Draw) -> Iterator[Case]:
    given = ((Strided.of(np.ones(3, np.float32)),),) * 2
    yield Case("all", "nobody dies", given)
    yield Case("all", "rank 1 dies", given, faults=(faults.parse("kill:1@op=1", 2),))


def test_faults_befall_the_case_that_has_them_and_only_where_it_is_simulated(engines: Engines) -> None:
    world = Ranks((Function("f"),), _with_and_without_a_death, p2p_only=True)
    bench = world.open(Grading(Submission(LAST_OF_TWO, "a.py"), engines, 1))
    assert bench.prepare() is None
    calls = {case.label: result for case, result in bench.calls("all")}
    assert calls["nobody dies"].arguments[0][0].view().tolist() == [4, 4, 4]
    died = calls["rank 1 dies"]
    assert died.returned == ("Connection closed by peer: rank 1 is gone", None)
    assert [given[0].view().tolist() for given in died.arguments] == [[2, 2, 2]] * 2  # what a dead rank left is there
    really = world.open(Grading(Submission(LAST_OF_TWO, "a.py"), engines, 1, "gloo"))
    assert [case.label for case, _ in really.calls("all")] == ["nobody dies"]


def test_a_judge_that_fails_itself_costs_its_own_check_and_says_so(engines: Engines) -> None:
    def broken(_: object) -> None:
        raise KeyError("sum")

    exercise = find("parallel_plan")
    broken_one = replace(exercise, checks=(replace(exercise.checks[0], judge=broken), *exercise.checks[1:]))
    verdict = grade(broken_one, verdicts.handed_in("parallel_plan", wrong.REFERENCE), engines, 1)
    first, *others = verdict.checks
    assert (first.status, first.points) == ("error", 0)
    assert first.diagnosis is not None
    assert "the check itself failed (KeyError: 'sum', in test_bench.py line" in first.diagnosis.message
    assert {check.status for check in others} == {"pass"}


TELLS = """\
import sys
import torch.distributed as dist

print("loading")

def f(x):
    print(int(x[0]), "on", dist.get_rank())
    print("to stderr", file=sys.stderr)
    if x[0] == 3:
        1 / 0
"""


def _three(_: Draw) -> Iterator[Case]:
    for number in (1, 2, 3):
        given = ((Strided.of(np.full(1, number, np.float32)),),) * 2
        yield Case("all", f"the number {number}", given, engine="gloo" if number == 1 else "sim")


def test_what_was_printed_belongs_to_one_run_with_its_case_and_ranks(engines: Engines) -> None:
    bench = Ranks((Function("f"),), _three).open(Grading(Submission(TELLS, "a.py"), engines, 1))
    bench.prepare()
    with pytest.raises(Lost) as lost:
        list(bench.calls("all"))
    outcomes = {case.label: outcome for case, outcome in bench._done.items()}
    for number, outcome in ((1, outcomes["the number 1"]), (2, outcomes["the number 2"]), (3, lost.value.picture)):
        said = bench.output(outcome)
        assert said.startswith(f"With the number {number}:\nrank 0 printed:\n{number} on 0\nrank 1 printed:")
        assert "rank 1 wrote to stderr:\nto stderr" in said
        assert "loading" not in said
        assert ("ZeroDivisionError" in said) == (number == 3)


def test_a_grading_that_is_stopped_runs_nothing_any_more(engines: Engines) -> None:
    def enough(result: CheckResult) -> None:
        assert result.status == "fail"
        raise TimeoutError

    before = threading.active_count()
    source = "def ring_all_reduce(t):\n    while t.numel() > 7:\n        pass\n"
    with pytest.raises(TimeoutError):
        grade(find("ring_all_reduce"), Submission(source, "a.py"), engines, 1, on_check=enough)
    assert threading.active_count() == before


@pytest.mark.parametrize(
    ("name", "check"), [("ring_all_reduce", "any_length"), ("quorum_store", "budget"), ("vector_clocks", "compare")]
)
def test_when_a_grading_is_over_so_are_its_boxes(
    engines: Engines, monkeypatch: pytest.MonkeyPatch, name: str, check: str
) -> None:
    made: list[Box] = []
    make = Warm.box

    def box(self: Warm, *args: Any, **kwargs: Any) -> Box:
        made.append(make(self, *args, **kwargs))
        return made[-1]

    exercise = only(find(name), check)
    begin, opened = type(exercise.world).open, list[Any]()

    def kept(self: Any, grading: Grading) -> Any:
        opened.append(begin(self, grading))  # or what is thrown away may end them, some time or other
        return opened[-1]

    monkeypatch.setattr(Warm, "box", box)
    monkeypatch.setattr(type(exercise.world), "open", kept)
    verdict = grade(exercise, verdicts.handed_in(name, wrong.REFERENCE), engines, 1)
    assert made
    assert verdict.check(check).status == "pass"
    assert not [each for each in made if each.frames]


@pytest.mark.parametrize(
    ("name", "check", "source", "end"),
    [
        ("gossip_crdt", "counters", "class GCounter:\n    pass\n", ' This happened in the case "GCounter".'),
        (
            "mapreduce",
            "right",
            "def run(*_):\n    1 / 0\n",
            ' This happened in the job "Word count, 6 splits, 3 workers".',
        ),
        ("collectives", "barrier", "1 / 0\n", "(line 1: `1 / 0`)."),
    ],
    ids=["a call", "a job", "while it was loaded"],
)
def test_a_crash_says_in_which_case_it_happened(engines: Engines, name: str, check: str, source: str, end: str) -> None:
    verdict = grade(only(find(name), check), Submission(source, "a.py"), engines, 1)
    found = verdict.check(check).diagnosis
    assert found is not None
    assert found.message.endswith(end), found.message


def test_nodes_are_judged_by_the_same_runs_in_every_grading(engines: Engines) -> None:
    """Of a wrong solution each check says the same with any seed, down to the times in sentences and pictures."""
    exercise = only(find("quorum_store"), "answers")
    handed_in = wrong.find("quorum_store/falsy_values_lost").submission
    one, other, drawn = (
        [
            (check.diagnosis, check.diagram)
            for check in grade(exercise, handed_in, engines, seed, schedules=which).checks
        ]
        for seed, which in ((1, SCHEDULES), (2, SCHEDULES), (1, 2))
    )
    assert one == other
    assert one != drawn, "other schedules are other runs"
