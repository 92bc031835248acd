"""The lab on Dask: in its environment, what a killed worker had is made again; elsewhere, one sentence."""

from __future__ import annotations

import importlib.util
import json
import signal
import subprocess
import sys

import labs
import pytest

LAB = labs.FOLDER / "dask_frames.py"


@pytest.mark.heavy
def test_what_a_killed_worker_had_is_made_again_and_the_sums_are_right() -> None:
    figures = json.loads(labs.run_or_skip(LAB, "--json", seconds=280, python=labs.python_or_skip("dask")))["figures"]
    assert (figures["rows"], figures["groups"]) == (200_000, 50)
    assert (figures["same"], figures["same_after"]) == ("yes", "yes")
    assert figures["remade"] == 3  # the two that it had finished, and the one that it was in
    assert figures["handed"] == 8 * 50
    assert figures["off"] < 1e-9 < 1 < figures["off_wrong"]


@pytest.mark.heavy
@pytest.mark.parametrize("number", labs.BY_TERMINATION, ids=lambda number: number.name)
def test_no_worker_outlives_the_lab(number: signal.Signals) -> None:
    labs.kill_once_started(LAB, number, "python", python=labs.python_or_skip("dask"))


@pytest.mark.skipif(importlib.util.find_spec("distributed") is not None, reason="Dask is installed here")
def test_without_dask_there_is_one_sentence() -> None:
    done = subprocess.run([sys.executable, str(LAB)], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.strip() == "Dask is not installed: make labs LABS=dask sets up an environment for it"
