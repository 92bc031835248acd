"""The convex problem of the chapters on training: gradients, shards and the least loss."""

from __future__ import annotations

import numpy as np
import pytest

from courselib.softmax import CLASSES, SAMPLES, SIZE, Softmax, least_loss


def test_the_gradient_is_that_of_the_loss() -> None:
    task, w = Softmax(), np.random.default_rng(0).normal(size=SIZE)
    slopes = [(task.loss(w + step) - task.loss(w - step)) / 2e-6 for step in 1e-6 * np.eye(SIZE)]
    assert task.gradient(w) == pytest.approx(slopes, abs=1e-7)


def test_batches_have_the_full_gradient_as_their_mean() -> None:
    task, w = Softmax(4), np.zeros(SIZE)
    mean = np.mean([task.gradient(w, worker, step) for worker in range(4) for step in range(400)], axis=0)
    assert np.linalg.norm(mean - task.gradient(w)) < 0.05 * np.linalg.norm(task.gradient(w))


def test_nothing_is_below_the_least_loss() -> None:
    task, w = Softmax(), np.zeros(SIZE)
    for _ in range(300):
        w = w - task.gradient(w)
    assert 0 <= task.excess(w) < 1e-3
    assert task.loss(w) > least_loss() - 1e-12


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("workers", [4, 8, 16])
def test_every_sample_is_on_one_worker(workers: int, own: bool) -> None:
    shards = Softmax(workers, own).shards
    assert len(shards) == workers
    assert sorted(np.concatenate(shards).tolist()) == list(range(SAMPLES))


def test_with_data_of_its_own_a_worker_has_one_class() -> None:
    task = Softmax(8, own=True)
    assert [set(task.labels[rows].tolist()) for rows in task.shards] == [{worker % CLASSES} for worker in range(8)]


def test_the_same_step_has_the_same_batch() -> None:
    w = np.ones(SIZE)
    assert np.array_equal(Softmax(4).gradient(w, 2, 7), Softmax(4).gradient(w, 2, 7))
    assert not np.array_equal(Softmax(4).gradient(w, 2, 7), Softmax(4).gradient(w, 2, 8))
