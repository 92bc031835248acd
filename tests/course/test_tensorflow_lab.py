"""The lab on TensorFlow: where its environment was set up, both workers have one worker's weights, but not by fit() of
Keras 3; elsewhere, one sentence."""

from __future__ import annotations

import importlib.util
import json
import signal
import subprocess
import sys

import labs
import pytest

LAB = labs.FOLDER / "tensorflow_two_workers.py"


@pytest.mark.heavy
def test_two_workers_have_the_weights_of_one() -> None:
    printed = labs.run_or_skip(LAB, "--json", seconds=300, python=labs.python_or_skip("tensorflow"))
    figures = json.loads(printed)["figures"]
    assert [figures[way] for way in ("loop", "keras2", "keras3", "keras3_loop")] == ["right", "right", "fails", "right"]
    assert "PerReplica" in figures["keras3_raised"]


@pytest.mark.heavy
@pytest.mark.parametrize("number", labs.BY_TERMINATION, ids=lambda number: number.name)
def test_no_worker_of_tensorflows_outlives_the_lab(number: signal.Signals) -> None:
    labs.kill_once_started(LAB, number, "python", python=labs.python_or_skip("tensorflow"))


@pytest.mark.skipif(importlib.util.find_spec("tensorflow") is not None, reason="TensorFlow is installed here")
def test_without_tensorflow_there_is_one_sentence() -> None:
    done = subprocess.run([sys.executable, str(LAB)], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.strip() == "TensorFlow is not installed: make labs LABS=tensorflow sets up an environment for it"
