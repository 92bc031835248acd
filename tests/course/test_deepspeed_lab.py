"""The lab on DeepSpeed: its configurations hold the batch identity, and without DeepSpeed it ends with one sentence."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

LAB = Path(__file__).parent.parent.parent / "course" / "labs" / "deepspeed_zero.py"


@pytest.mark.parametrize("stage", [0, 1, 2, 3])
def test_the_batch_is_micro_times_accumulation_times_world(stage: int) -> None:
    spec = importlib.util.spec_from_file_location("deepspeed_zero", LAB)
    assert spec is not None
    assert spec.loader is not None
    lab = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(lab)
    config = lab.configuration(stage, "bf16")
    parts = config["train_micro_batch_size_per_gpu"] * config["gradient_accumulation_steps"] * lab.WORLD
    assert config["train_batch_size"] == parts
    assert config["zero_optimization"]["stage"] == stage


@pytest.mark.skipif(importlib.util.find_spec("deepspeed") is not None, reason="DeepSpeed is installed here")
def test_without_deepspeed_it_says_how_to_install_it() -> None:
    lab = subprocess.run([sys.executable, LAB], check=False, capture_output=True, text=True, timeout=60)
    assert (lab.returncode, lab.stdout) == (2, "")
    assert lab.stderr == "DeepSpeed is not installed: pip install deepspeed\n"
