"""A chapter's own functions as a job on real processes: what comes out, which tasks ran twice, and the picture."""

from __future__ import annotations

from collections import Counter

import pytest

from courselib.jobs import JobRun, job
from grader.lost import Lost
from grader.submission import BadRequest

SPLITS = ["a b a", "c c", "b a", "d e f g h"]
RIGHT = dict(Counter(" ".join(SPLITS).split()))


def word_pairs(split):  # type: ignore[no-untyped-def]
    return [(word, 1) for word in split.split()]


def summed(key, values):  # type: ignore[no-untyped-def]
    return sum(values)


def by_hash(key, reducers):  # type: ignore[no-untyped-def]
    return hash(key) % reducers


def broken(split):  # type: ignore[no-untyped-def]
    raise KeyError(split)


def begun(run: JobRun) -> Counter[str]:
    return Counter(name for name, _ in run.tasks)


def test_nothing_happens_and_every_task_runs_once() -> None:
    run = job(word_pairs, summed, SPLITS)
    assert run.result == RIGHT
    assert run.twice == []
    assert set(begun(run).values()) == {1}
    assert list(begun(run)) == ["map 0", "map 1", "map 2", "map 3", "reduce 0", "reduce 1"]
    assert "map 3" in run._repr_html_()


@pytest.mark.parametrize("task", [1, 4, 5])
def test_the_task_that_a_worker_is_killed_in_runs_again_and_no_other(task: int) -> None:
    run = job(word_pairs, summed, SPLITS, deaths=[task])
    assert run.result == RIGHT
    [lost] = [name for name, ran in run.tasks if ran.became == "died"]
    assert run.twice == [lost]
    assert "killed in it" in run.picture("Killed").svg


def test_a_task_that_stands_still_has_a_backup() -> None:
    run = job(word_pairs, summed, SPLITS, still=[2])
    assert run.result == RIGHT
    assert run.twice == ["map 1"]
    assert "stands still" in run.picture().svg


def test_a_copy_that_ends_in_the_next_phase_changes_nothing() -> None:
    run = job(word_pairs, summed, SPLITS * 2, still=[5], patience=0.5)
    last = max(task.end or 0.0 for name, task in run.tasks if name.startswith("map") and task.became == "done")
    assert any(task.begin < last for name, task in run.tasks if name.startswith("reduce"))
    assert run.result == {word: 2 * count for word, count in RIGHT.items()}


def test_a_combiner_makes_the_shuffle_smaller_and_the_result_the_same() -> None:
    splits = ["a b " * 500] * 2
    plain, combined = job(word_pairs, summed, splits), job(word_pairs, summed, splits, summed)
    assert combined.result == plain.result == {"a": 1000, "b": 1000}
    assert combined.shuffled * 10 < plain.shuffled


def test_what_hash_partitions_meets_in_several_reducers() -> None:
    run = job(word_pairs, summed, [" ".join(RIGHT)] * 6, partition=by_hash, workers=6)
    written = Counter(key for part in run.written for key, _ in part)
    assert max(written.values()) == 2


def test_the_same_seed_is_the_same_run() -> None:
    first, second = (job(word_pairs, summed, SPLITS, deaths=[3], seed=5) for _ in range(2))
    assert first.picture().svg == second.picture().svg


def test_a_function_that_has_no_text_of_its_own_is_named() -> None:
    with pytest.raises(BadRequest, match="lambda"):
        job(lambda split: [], summed, SPLITS)


def test_a_function_that_raises_ends_the_job_with_what_it_raised() -> None:
    with pytest.raises(Lost, match="KeyError"):
        job(broken, summed, SPLITS)
