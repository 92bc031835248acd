"""The checks are tested by submissions: wrong ones must lose points for the right reason, right ones lose none."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet
from matrix import PROPERTY, Row
from submissions import TESTS, BadHeader, files, header, name

from grader import submission
from grader.exercise import Exercise
from grader.grading import grade, only
from grader.ranks.engines import Engines
from grader.registry import find, names
from grader.verdict import Verdict
from grader.worlds.nodes import Nodes, NodesAndCalls
from grader.worlds.ray import Ray
from grader.worlds.spark import Spark

SEED = 1
MANY_SEEDS = range(2, 32)
SOME_SEEDS = range(2, 8)
SOAKED_SEEDS = range(2, 1002)  # of nodes, whose schedules are drawn anew by each
ALTERNATIVES = files("alternatives")
REFERENCES = sorted(TESTS.parent.glob("solutions/*/*.ipynb"))
OF_EACH_CHECK = 1  # mutants of every check that are always tried;
OF_EACH_CHECK_IN_ALL = 2  # `make test-all` tries so many, `make mutants` every one
OF_AN_ENGINE = 2  # mutants of an exercise on Spark, Ray or Optuna that `make test-all` tries
LONG = ("ray_train", "stream_exactly_once")  # a verdict takes most of a minute: nothing of them is always tried
QUICK = ("ray_tasks", "spark_skew")  # of what runs on an engine: a mutant of these is always tried
SLOW = ("checkpoint", "elastic_training", "serve_checkpoint")  # many short lives each


def slow(exercise: Exercise) -> bool:
    """Whether one verdict takes many seconds: of it one mutant and one other right one are always tried."""
    return exercise.name in SLOW or on_an_engine(exercise)


def on_an_engine(exercise: Exercise) -> bool:
    """Whether Spark, Ray or Optuna runs for it: of it at most one mutant is always tried, and no other right one."""
    return isinstance(exercise.world, Spark | Ray) or exercise.name == "optuna_shared"


def mutants() -> Iterator[ParameterSet]:
    """Every mutant; for each check, those that it alone catches come first, and the first are not heavy."""
    tried: dict[tuple[str, str], int] = defaultdict(int)
    light: dict[str, int] = defaultdict(int)
    by_worth = sorted(files("mutants"), key=lambda path: (not header(path.read_text()).only, path))
    for path in by_worth:
        expected, exercise = header(path.read_text()), find(path.parent.name)
        which = path.parent.name, expected.check
        tried[which] += not expected.heavy
        heavy = expected.heavy or tried[which] > OF_EACH_CHECK
        if slow(exercise) and (not heavy or on_an_engine(exercise)):
            light[exercise.name] += 1
            heavy = light[exercise.name] > (exercise.name in QUICK if on_an_engine(exercise) else 1)
        marks = [pytest.mark.heavy] * heavy
        if tried[which] > OF_EACH_CHECK_IN_ALL or (on_an_engine(exercise) and light[exercise.name] > OF_AN_ENGINE):
            marks = [pytest.mark.soak]
        yield pytest.param(path, id=name(path), marks=marks)


def exercise_of(path: Path) -> Exercise:
    return find(path.stem if path.suffix == ".ipynb" else path.parent.name)


def verdict_on(path: Path, engines: Engines, seed: int = SEED) -> Verdict:
    exercise = exercise_of(path)
    return grade(exercise, submission.read(path, exercise.function_names), engines, seed)


def told(verdict: Verdict) -> str:
    """Every check and what it says, for the message of a failing test."""
    lines = [f"{verdict.exercise}, seed {verdict.seed}: {verdict.points:g} of {verdict.max_points:g} points"]
    for check in verdict.checks:
        found = check.diagnosis
        what = f"{found.kind}, rank {found.rank}, line {found.line}: {found.message}" if found else ""
        lines.append(f"  {check.name:12} {check.status} {what}".rstrip())
    return "\n".join(lines)


@pytest.mark.parametrize("path", list(mutants()))
def test_a_mutant_is_caught_by_its_check_for_its_reason(
    path: Path, engines: Engines, record_property: Callable[[str, object], None]
) -> None:
    expected = header(path.read_text())
    verdict = verdict_on(path, engines)
    by_name = {check.name: check for check in verdict.checks}
    assert expected.check in by_name, f"{name(path)} names a check that {verdict.exercise} does not have"
    found = by_name[expected.check].diagnosis
    lost_by = [(check.name, check.status != "pass") for check in verdict.checks]
    kind = found.kind if found else "not caught"
    record_property(PROPERTY, Row(verdict.exercise, path.stem, expected.check, kind, lost_by).to_json())
    assert found is not None, f"{expected.bug}\n'{expected.check}' lets it through.\n{told(verdict)}"
    assert found.kind in expected.kinds, f"{expected.bug}\nMust be {expected.kinds}.\n{told(verdict)}"
    if expected.only:
        lost = [check.name for check in verdict.checks if check.status != "pass"]
        assert lost == [expected.check], f"{expected.bug}\nOnly '{expected.check}' may lose points.\n{told(verdict)}"


def alternatives() -> Iterator[ParameterSet]:
    """Every other right solution; of the slow ones, and of nodes, at most the first is not heavy."""
    for path in ALTERNATIVES:
        exercise = find(path.parent.name)
        first = path == files("alternatives", path.parent.name)[0] and exercise.name not in ("checkpoint", "raft")
        heavy = bool(slow(exercise) or isinstance(exercise.world, Nodes | NodesAndCalls)) and not first
        marks = [pytest.mark.soak] if on_an_engine(exercise) else [pytest.mark.heavy] * heavy
        yield pytest.param(path, id=name(path), marks=marks)


@pytest.mark.parametrize("path", list(alternatives()))
def test_a_right_solution_has_full_marks(path: Path, engines: Engines) -> None:
    verdict = verdict_on(path, engines)
    assert verdict.passed, told(verdict)
    assert verdict.points == verdict.max_points, told(verdict)


@pytest.mark.parametrize(
    "path", [pytest.param(path, id=path.stem, marks=[pytest.mark.heavy] * (path.stem in LONG)) for path in REFERENCES]
)
def test_a_reference_solution_has_full_marks(path: Path, engines: Engines) -> None:
    verdict = verdict_on(path, engines)
    assert verdict.points == verdict.max_points, told(verdict)


def of_nodes() -> list[Path]:
    """The right solutions whose schedules depend on the seed."""
    return [path for path in REFERENCES + ALTERNATIVES if isinstance(exercise_of(path).world, Nodes | NodesAndCalls)]


@pytest.mark.heavy
@pytest.mark.parametrize("path", of_nodes(), ids=name)
def test_a_right_solution_of_nodes_has_full_marks_with_many_seeds(path: Path, engines: Engines) -> None:
    """Each seed with one check, in turn: all checks with all seeds are soaked."""
    exercise = exercise_of(path)
    handed_in = submission.read(path, exercise.function_names)
    for number, seed in enumerate(MANY_SEEDS if path in REFERENCES else SOME_SEEDS):
        check = exercise.checks[number % len(exercise.checks)]
        verdict = grade(only(exercise, check.name), handed_in, engines, seed)
        assert verdict.points == verdict.max_points, told(verdict)


@pytest.mark.soak
@pytest.mark.parametrize("path", REFERENCES + ALTERNATIVES, ids=name)
def test_a_right_solution_has_full_marks_with_any_seed(path: Path, engines: Engines) -> None:
    for seed in SOAKED_SEEDS if isinstance(exercise_of(path).world, Nodes | NodesAndCalls) else MANY_SEEDS:
        verdict = verdict_on(path, engines, seed)
        assert verdict.points == verdict.max_points, told(verdict)


@pytest.mark.parametrize("exercise", names())
def test_every_check_has_a_mutant_that_it_alone_catches(exercise: str) -> None:
    headers = [header(path.read_text()) for path in files("mutants", exercise)]
    alone = {expected.check for expected in headers if expected.only}
    assert {check.name for check in find(exercise).checks} - alone == set()


@pytest.mark.parametrize("exercise", names())
def test_every_exercise_has_right_solutions_of_other_kinds(exercise: str) -> None:
    assert len(files("alternatives", exercise)) >= 2


def test_every_example_belongs_to_an_exercise() -> None:
    assert {path.parent.name for path in files("mutants") + ALTERNATIVES} <= set(names())


GOOD = '"""Sends too much.\n\ncheck: bytes\nkind: too_many_bytes\nonly: yes\n"""\n'


def test_a_header_is_read_also_where_the_rest_is_no_python() -> None:
    expected = header(GOOD + "def f(:\n")
    assert (expected.bug, expected.check, expected.kinds, expected.only) == (
        "Sends too much.", "bytes", ("too_many_bytes",), True,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("import torch\n", "does not begin with a docstring"),
        (GOOD.replace("Sends too much.\n\n", ""), "not a sentence"),
        (GOOD.replace("check: bytes\n", ""), "'check: ...' is missing"),
        (GOOD.replace("kind: too_many_bytes\n", ""), "'kind: ...' is missing"),
        (GOOD.replace("kind: too_many_bytes", "kind: too_many"), "no kind of diagnosis"),
        (GOOD.replace("only: yes", "only: no"), "leave the line out"),
        (GOOD.replace("only: yes", "onyl: yes"), "'onyl: yes' is none of"),
        (GOOD.replace("only: yes", "kind: race"), "'kind: race' is none of"),
    ],
    ids=["no docstring", "no bug", "no check", "no kind", "unknown kind", "only: no", "misspelt", "twice"],
)
def test_a_mutant_without_a_proper_header_is_refused(text: str, why: str) -> None:
    with pytest.raises(BadHeader, match=why):
        header(text)
