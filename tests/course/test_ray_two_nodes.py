"""The lab of Ray Train on two nodes: each row once in an epoch, and on from the checkpoint when a node is killed."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import labs
import pytest
from often import on_day

LAB = labs.FOLDER / "ray_two_nodes.py"


@on_day(2)
def test_each_row_is_given_once_an_epoch_and_a_killed_node_costs_one_epoch() -> None:
    figures = json.loads(labs.run_or_skip(LAB, "--json", seconds=600))["figures"]
    assert figures["forgotten"] == "KeyError"
    for epoch in range(4):
        assert (figures[f"distinct_{epoch}"], figures[f"twice_{epoch}"]) == (1_000, 0)
        assert figures[f"shares_{epoch}"] == "500 and 500"
    assert (figures["start"], figures["restored"]) == (2, 1)
    assert 300 <= figures["again"] <= 500  # rank 1 had two batches, rank 0 one to three
    assert (figures["nodes_before"], figures["nodes_after"], figures["nodes"], figures["lives"]) == (2, 2, 3, 4)
    assert 4_000 < figures["prepared"] <= 5_000  # four whole epochs, and at least the rows that were given twice
    assert figures["uneven"] == 1_000


@on_day(3)
@pytest.mark.parametrize("number", labs.BY_INTERRUPT, ids=lambda number: number.name)
def test_no_node_outlives_the_lab(number: signal.Signals) -> None:
    labs.kill_once_started(LAB, number, "raylet")


def test_without_ray_there_is_one_sentence(tmp_path: Path) -> None:
    for name in ("ray_two_nodes.py", "ray_tour.py", "servers.py"):
        shutil.copy(labs.FOLDER / name, tmp_path)
    done = subprocess.run(
        [sys.executable, "-S", str(tmp_path / LAB.name)], capture_output=True, text=True, check=False
    )  # without site-packages
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.strip() == "PyTorch is not installed: pip install 'rankup[jobs]'"
