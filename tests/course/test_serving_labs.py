"""A watched training, its checkpoint served two ways, a hang looked into: what chapter 14 says of them."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import labs
import pytest
from often import on_day

from courselib import watched

pytestmark = on_day(0)
TRAIN, SERVE, HANG = (labs.FOLDER / f"{name}.py" for name in ("train_and_watch", "serve_two_ways", "hang"))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    labs.run_or_skip(TRAIN, str(folder))
    return folder


def test_rank_0_sees_another_loss_than_all(trained: Path) -> None:
    losses = json.loads((trained / "losses.json").read_text())
    for own, other, every in zip(losses["rank 0"], losses["rank 1"], losses["all"], strict=True):
        assert every == pytest.approx((own + other) / 2, abs=1e-5)
    assert sum(losses["rank 0"][-50:]) < 0.7 * sum(losses["all"][-50:])


def test_tensorboard_and_wandb_hold_what_was_logged(trained: Path) -> None:
    pytest.importorskip("tensorboard")
    pytest.importorskip("wandb")
    losses = json.loads((trained / "losses.json").read_text())["all"]
    logged = watched.history(next(trained.glob("wandb/offline-run-*/*.wandb")))
    assert [each["loss/all"] for each in logged] == losses
    seen = watched.scalars(trained / "tensorboard")["loss/all"]
    assert [value for _, value in seen] == pytest.approx(losses)
    assert [step for step, _ in seen] == [each["_step"] for each in logged] == [*range(len(losses))]


def test_the_traces_show_collectives_that_begin_within_the_backward_pass(trained: Path) -> None:
    for rank in range(2):
        spans = watched.spans(trained / f"trace-{rank}.json")
        [backward] = [span for span in spans if span.name == "backward"]
        sends = [span for span in spans if span.name == "gloo:all_reduce"]
        assert len(sends) == 6
        assert all(backward.since < span.since < backward.until for span in sends)


def test_both_servers_give_the_same_answers_and_are_alive_before_they_are_ready(trained: Path) -> None:
    figures = json.loads(labs.run_or_skip(SERVE, str(trained / "checkpoint.pt"), "--json"))["figures"]
    assert figures["same"] == 1
    assert figures["statuses"] == "200 503 503 200 503 200 200 200"
    assert figures["health, async-def"] > 0.4
    if "replicas" not in figures:
        pytest.skip("Ray did not start")
    assert figures["replicas"] == 2
    assert figures["after_kill"] >= 46  # of 48: the other replica answers
    assert figures["fastapi_ended"] in (0, -signal.SIGTERM)
    assert figures["batch, @serve.batch(16), as it comes"] <= 5
    assert figures["batch, @serve.batch(16), max_ongoing_requests=64"] > 5


def test_each_tool_points_at_the_rank_that_left_out_a_collective() -> None:
    figures = json.loads(labs.run_or_skip(HANG, "--json"))["figures"]
    assert ["all_reduce" in figures[f"stands {rank}"] for rank in range(3)] == [True, False, True]
    assert "store.wait" in figures["stands 1"]
    assert [figures[f"recorded {rank}"] for rank in range(3)] == [6, 5, 6]
    assert "Timed out" in figures["timeout 0"]
    assert "Ranks 1 failed to pass monitoredBarrier" in figures["detail 0"]
    assert "mismatch between collectives" in figures["mismatch 1"]


@pytest.mark.parametrize("number", labs.BY_INTERRUPT, ids=lambda number: number.name)
def test_a_training_that_is_ended_leaves_no_rank_and_no_logger(number: signal.Signals, tmp_path: Path) -> None:
    pytest.importorskip("wandb")
    labs.kill_once_started(TRAIN, number, "wandb-core", str(tmp_path))


@pytest.mark.parametrize("number", labs.BY_TERMINATION, ids=lambda number: number.name)
def test_a_hang_that_is_ended_leaves_no_rank(number: signal.Signals) -> None:
    labs.kill_once_started(HANG, number, "python")


@pytest.mark.parametrize("number", labs.BY_INTERRUPT, ids=lambda number: number.name)
def test_serving_that_is_ended_leaves_no_server(number: signal.Signals, trained: Path) -> None:
    labs.kill_once_started(SERVE, number, "python", str(trained / "checkpoint.pt"))


@pytest.mark.parametrize("number", labs.BY_TERMINATION, ids=lambda number: number.name)
def test_ray_serve_that_is_ended_leaves_no_process(number: signal.Signals, trained: Path) -> None:
    labs.kill_once_started(SERVE, number, "raylet", str(trained / "checkpoint.pt"))


def test_what_cannot_be_run_is_said_in_a_sentence(tmp_path: Path) -> None:
    done = labs.without_programs(SERVE, tmp_path, str(tmp_path / "none.pt"))
    assert done.returncode == 2
    assert "there is no checkpoint" in done.stderr
    assert "Traceback" not in done.stderr
