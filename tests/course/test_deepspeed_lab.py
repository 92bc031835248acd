"""The lab on DeepSpeed: its stages run on CPU ranks and hold what ZeRO says; elsewhere, one sentence."""

from __future__ import annotations

import importlib.util
import json
import signal
import subprocess
import sys

import labs
import pytest

LAB = labs.FOLDER / "deepspeed_zero.py"
PARAMETERS = 4 * 128 * 129


@pytest.mark.parametrize("stage", [0, 1, 2, 3])
def test_the_batch_is_micro_times_accumulation_times_world(stage: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(labs.FOLDER))
    spec = importlib.util.spec_from_file_location("deepspeed_zero", LAB)
    assert spec is not None
    assert spec.loader is not None
    lab = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(lab)
    config = lab.configuration(stage, "bf16")
    parts = config["train_micro_batch_size_per_gpu"] * config["gradient_accumulation_steps"] * lab.WORLD
    assert config["train_batch_size"] == parts
    assert config["zero_optimization"]["stage"] == stage


@pytest.mark.heavy
def test_stages_share_state_then_gradients_then_parameters() -> None:
    printed = labs.run_or_skip(LAB, "--json", seconds=280, python=labs.python_or_skip("deepspeed"))
    figures = json.loads(printed)["figures"]
    assert (figures["stages"], figures["on"]) == ("0, 1, 2, 3", "cpu")
    assert figures["fp32_apart"] < 2e-6
    assert abs(figures["bf16_0_loss"] - figures["fp32_0_loss"]) < 1e-2
    # float32 master copy and two moments, 12 bytes a parameter; from stage 1 on half of them, and a few bytes of steps
    assert figures["bf16_0_state"] - 12 * PARAMETERS in range(100)
    assert [figures[f"bf16_{stage}_state"] - 6 * PARAMETERS in range(100) for stage in (1, 2, 3)] == [True] * 3
    assert [figures[f"bf16_{stage}_parameters"] for stage in range(4)] == [2 * PARAMETERS] * 3 + [PARAMETERS]
    assert [figures[f"bf16_{stage}_units"] for stage in range(4)] == [2, 3, 5, 4.25]


@pytest.mark.heavy
@pytest.mark.parametrize("number", labs.BY_TERMINATION, ids=lambda number: number.name)
def test_no_rank_of_deepspeeds_outlives_the_lab(number: signal.Signals) -> None:
    labs.kill_once_started(LAB, number, "python", python=labs.python_or_skip("deepspeed"))


@pytest.mark.skipif(importlib.util.find_spec("deepspeed") is not None, reason="DeepSpeed is installed here")
def test_without_deepspeed_there_is_one_sentence() -> None:
    lab = subprocess.run([sys.executable, LAB], check=False, capture_output=True, text=True, timeout=60)
    assert (lab.returncode, lab.stdout) == (2, "")
    assert lab.stderr == "DeepSpeed is not installed: make labs LABS=deepspeed sets up an environment for it\n"
