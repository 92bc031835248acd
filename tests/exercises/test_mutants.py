"""The checks are tested by submissions: wrong ones must lose points for the right reason, right ones lose none.

What is tried follows from what a verdict costs. `make test` takes of each exercise whose verdict costs a second the
reference, another right solution and a wrong one for every check; where it costs some seconds a wrong one for one
check, and the reference if it is its day; of expensive ones nothing. Each day's `.ci/run` adds the references (of
expensive ones every other day, of those that take a minute as all else) and a share of all else. A wrong one is graded
by its check alone where it is expensive, or tried always and not of the day; `make mutants` grades all of them as a
whole.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from _pytest.mark import ParameterSet
from matrix import PROPERTY, Row
from often import every_other_day

from grader.authoring import verdicts, wrong
from grader.authoring.wrong import REFERENCE, Wrong
from grader.exercise import Cost
from grader.grading import grade, only
from grader.ranks.engines import Engines
from grader.registry import catalogue, find, names
from grader.verdict import Verdict
from grader.worlds.nodes import Nodes, NodesAndCalls

CHEAP: tuple[Cost, ...] = ("second", "seconds")  # of what costs more, `make test` grades one submission at most
TODAY = int(os.environ["RANKUP_SHARE"])  # see conftest
WHOLE = os.environ.get("RANKUP_WHOLE") == "1"  # no check is graded alone
MANY_SEEDS = range(2, 32)
TODAYS_SEEDS = range(2 + 4 * TODAY, 6 + 4 * TODAY)
SOAKED_SEEDS = range(2, 1002)  # of nodes, with schedules that no submission is judged by
RIGHT = [(name, f"right/{path.stem}") for name in names() for path in wrong.right(name)]
REFERENCES = [(name, REFERENCE) for name in names()]
NODES = {exercise.name for exercise in catalogue() if isinstance(exercise.world, Nodes | NodesAndCalls)}


def today(name: str, submission: str) -> bool:
    """Whether it is of the day's share."""
    return verdicts.share(f"{name}/{submission}", verdicts.SHARES) == TODAY


def told(verdict: Verdict) -> str:
    """Every check and what it says, for the message of a failing test."""
    lines = [f"{verdict.exercise}, seed {verdict.seed}, RANKUP_SHARE={TODAY}: {verdict.points:g} points"]
    for check in verdict.checks:
        found = check.diagnosis
        what = f"{found.kind}, rank {found.rank}, line {found.line}: {found.message}" if found else ""
        lines.append(f"  {check.name:12} {check.status} {what}".rstrip())
    return "\n".join(lines)


def tried_wrong() -> Iterator[ParameterSet]:
    """Every wrong submission. Always tried is one a check, of what is not cheap one in all; rather what one check
    alone catches, and nothing that takes long."""
    for name in names():
        cost = find(name).cost
        dear = cost not in CHEAP
        other_day = cost == "seconds" and not every_other_day(name)
        seen: set[str] = set()
        for each in sorted(wrong.wrongs(name), key=lambda each: (each.heavy, not each.only, each.name)):
            which = each.check if cost == "second" else ""
            always = not (dear or each.heavy or other_day) and which not in seen
            seen.add(which)
            marks = [] if always else [pytest.mark.heavy if today(name, f"wrong/{each.name}") else pytest.mark.soak]
            alone = dear or (always and not today(name, f"wrong/{each.name}"))
            yield pytest.param(each, alone and not WHOLE, id=each.id, marks=marks)


@pytest.mark.parametrize(("each", "alone"), list(tried_wrong()))
def test_a_wrong_submission_is_caught_by_its_check_for_its_reason(
    each: Wrong, alone: bool, engines: Engines, record_property: Callable[[str, object], None]
) -> None:
    """With `alone` no other check is graded."""
    exercise = find(each.exercise)
    asked = only(exercise, each.check) if alone else exercise
    verdict = grade(asked, each.submission, engines, verdicts.SEED)
    found = verdict.check(each.check).diagnosis
    lost = {check.name: check.status != "pass" for check in verdict.checks}
    lost_by = [(check.name, lost.get(check.name)) for check in exercise.checks]
    kind = found.kind if found else "not caught"
    record_property(PROPERTY, Row(each.exercise, each.name, each.check, kind, lost_by).to_json())
    drawn = verdict.check(each.check).diagram
    assert drawn is None or drawn.startswith("<svg")
    assert not verdicts.missed(each, verdict), f"{each.bug}\n{verdicts.missed(each, verdict)}\n{told(verdict)}"
    if (kept := verdict.check(each.check).schedule) is not None:
        plays_again(each, kept, verdict, engines)


def plays_again(each: Wrong, kept: dict[str, Any], verdict: Verdict, engines: Engines) -> None:
    """What a kept schedule shows is the same again, and is not wrong with what is right."""
    asked = only(find(each.exercise), each.check)
    again = grade(asked, each.submission, engines, verdicts.SEED, replayed=kept).checks[0]
    assert again.diagnosis == verdict.check(each.check).diagnosis
    base = verdicts.handed_in(each.exercise, each.base or REFERENCE)
    right = grade(asked, base, engines, verdicts.SEED, replayed=kept)
    assert right.checks[0].status in ("pass", "skipped"), f"the schedule, played by what is right\n{told(right)}"


def tried_right() -> Iterator[ParameterSet]:
    """Every right submission. Always tried are the reference and the first other one where a verdict costs a second,
    and the references of the day where it costs some."""
    for name, each in REFERENCES + RIGHT:
        cost, first = find(name).cost, f"right/{wrong.right(name)[0].stem}"
        daily = today(name, each) or (
            each == REFERENCE and (cost in CHEAP or (cost != "minute" and every_other_day(name)))
        )
        always = cost == "second" and each in (REFERENCE, first)
        always |= cost == "seconds" and each == REFERENCE and today(name, each)
        marks = [] if always else [pytest.mark.heavy if daily else pytest.mark.soak]
        yield pytest.param(name, each, id=f"{name}/{each}", marks=marks)


@pytest.mark.parametrize(("name", "each"), list(tried_right()))
def test_a_right_submission_has_full_marks(name: str, each: str, engines: Engines) -> None:
    verdict = grade(find(name), verdicts.handed_in(name, each), engines, verdicts.SEED)
    assert verdict.passed, told(verdict)
    assert verdict.points == verdict.max_points, told(verdict)
    assert all(check.diagram is None or check.diagram.startswith("<svg") for check in verdict.checks)
    for number in (each for check in verdict.checks for each in check.measured):
        least, most = sorted((number.yours, number.bound), reverse=number.at_least)
        assert least == number.yours or math.isclose(least, most), f"{number}: points for what is not allowed"


@pytest.mark.heavy
@pytest.mark.parametrize(("name", "each"), [one for one in REFERENCES + RIGHT if one[0] in NODES and today(*one)])
def test_a_right_submission_of_nodes_has_full_marks_with_many_schedules(name: str, each: str, engines: Engines) -> None:
    """Others than those by which submissions are judged, each with one check, in turn: all with all are soaked."""
    exercise, handed_in = find(name), verdicts.handed_in(name, each)
    for number, seed in enumerate(TODAYS_SEEDS):
        check = exercise.checks[number % len(exercise.checks)]
        verdict = grade(only(exercise, check.name), handed_in, engines, seed, schedules=seed)
        assert verdict.points == verdict.max_points, told(verdict)


@pytest.mark.soak
@pytest.mark.parametrize(("name", "each"), REFERENCES + RIGHT)
def test_a_right_submission_has_full_marks_with_any_seed(name: str, each: str, engines: Engines) -> None:
    for seed in SOAKED_SEEDS if name in NODES else MANY_SEEDS:
        verdict = grade(find(name), verdicts.handed_in(name, each), engines, seed, schedules=seed)
        assert verdict.points == verdict.max_points, told(verdict)


@pytest.mark.parametrize("name", names())
def test_every_check_has_a_wrong_submission_that_it_alone_catches(name: str) -> None:
    alone = {each.check for each in wrong.wrongs(name) if each.only}
    assert {check.name for check in find(name).checks} - alone == set()


@pytest.mark.parametrize("name", names())
def test_every_exercise_has_right_submissions_of_other_kinds(name: str) -> None:
    assert len(wrong.right(name)) >= 2
