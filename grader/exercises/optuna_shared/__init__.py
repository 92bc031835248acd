"""worker(storage_url, study_name, trials_total): several processes work on one study, and one of them is killed.

Judged by what the study's database holds in the end, and by which trials the processes were in, whatever worker() is.
Akiba et al. 2019, *Optuna: A Next-generation Hyperparameter Optimization Framework*, section 4 (the shared storage);
Optuna's documentation, RDBStorage (heartbeat_interval, grace_period) and *Heartbeat monitoring*.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from grader.exercise import Check, Draw, Exercise
from grader.exercises.optuna_shared import studies
from grader.ranks.program import Function, Limits
from grader.worlds.cases import Case
from grader.worlds.ranks import Crashes

PRUNED = [*range(1, 9)]  # calls, of any process: who has a number of attempts in mind has none left
NOTHING: list[Any] = [0, False, [], False, False]  # no call is killed or pruned, none takes long


def cases(draw: Draw) -> Iterator[Case]:
    """One case is a study, with the calls of worker() that were made on it."""
    total = int(draw.generator("total").integers(6, 9))
    yield _case(draw, "together", "three processes", [[3, total]], NOTHING)
    yield _case(draw, "few", "fewer trials than processes", [[3, 2]], NOTHING)
    yield _case(draw, "pruned", "pruned trials", [[2, 3]], [0, False, PRUNED[:3], False, False])
    many = [0, False, PRUNED, False, False]  # alone: of two, one always sees a trial of the other's that runs
    yield _case(draw, "pruned", "one process, many pruned trials", [[1, 2]], many)
    yield _case(draw, "late", "called again", [[1, 2], [2, 5], [2, 5]], NOTHING)
    yield _case(draw, "killed", "killed in its first trial", [[2, 5]], [1, False, [], False, False])
    yield _case(
        draw, "again", "killed in its first trial, and killed again in the retry", [[3, 5]], [1, False, [], False, True]
    )
    yield _case(draw, "last", "killed in the last trial", [[2, 4]], [4, True, [], False, False])
    yield _case(draw, "slow", "a slow trial", [[3, 5]], [0, False, [], True, False])


def _case(draw: Draw, group: str, label: str, runs: list[list[int]], plan: list[Any]) -> Case:
    seed = int(draw.generator(f"values {group}").integers(2**31))
    return Case(group, label, ((runs, plan, seed),), by="searches")


EXERCISE = Exercise(
    name="optuna_shared",
    chapter="13",
    title="One study, many processes",
    minutes=60,
    difficulty=2,
    cost="tens of seconds",
    world=Crashes(
        (Function("worker", ("storage_url", "study_name", "trials_total")),),
        cases,
        limits=Limits(cpu_seconds=120, load_cpu_seconds=10, idle_seconds=60, silent_seconds=120, wall_seconds=120),
        imported=("optuna", "optuna.samplers", "optuna.storages._rdb.storage", "sqlalchemy.dialects.sqlite"),
    ),
    checks=(
        Check("shared", "Three processes work on one study at the same time", 3, studies.shared),
        Check("exact", "Exactly trials_total trials complete, whichever process looks first", 4, studies.exact),
        Check("pruned", "Pruned trials do not count", 2, studies.pruned),
        Check("late", "Who comes later does what is left, and no more", 2, studies.late),
        Check("killed", "A killed process's trial is marked as failed", 4, studies.killed),
        Check("retried", "What it tried is tried again", 3, studies.retried),
        Check("last", "Killed in the last trial of all, it is waited for", 3, studies.last),
        Check("slow", "A trial that takes long is not taken for dead", 3, studies.slow),
    ),
)
