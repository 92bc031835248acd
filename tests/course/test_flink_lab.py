"""The lab on Flink: where its environment was set up, every number is written once; elsewhere, one sentence."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import labs
import pytest

LAB = labs.FOLDER / "flink_exactly_once.py"


@pytest.mark.heavy
def test_each_number_is_written_once() -> None:
    figures = json.loads(labs.run_or_skip(LAB, "--json"))["figures"]
    assert (figures["distinct"], figures["missing"], figures["duplicates"]) == (6_000, 0, 0)
    assert figures["restored"] >= 1


@pytest.mark.heavy
@pytest.mark.parametrize("number", labs.BY_TERMINATION, ids=lambda number: number.name)
def test_no_server_outlives_the_lab(number: signal.Signals) -> None:
    labs.kill_once_started(LAB, number, "java")


def test_without_flink_there_is_one_sentence(tmp_path: Path) -> None:
    folder = tmp_path / "course" / "labs"
    shutil.copytree(labs.FOLDER, folder)
    done = subprocess.run([sys.executable, str(folder / LAB.name)], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.strip() == "Flink is not installed: make flink-lab sets up an environment for it"
