"""The job of chapter 11 whose nodes change: it ends with the weights of one process that nothing happened to."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

LAB = Path(__file__).parent.parent.parent / "course" / "labs" / "elastic_nodes.py"


@pytest.mark.heavy
def test_a_node_is_lost_and_another_one_joins() -> None:
    done = subprocess.run([sys.executable, LAB], check=False, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    told = [json.loads(line) for line in done.stdout.splitlines()]
    lives: dict[tuple[int, int], list[int]] = {}
    for line in told:
        if line["what"] == "step":
            lives.setdefault((line["node"], line["world"]), []).append(line["step"])
    assert lives[0, 1] == list(range(20, 40))
    together, later = lives[0, 2][:-20], lives[0, 2][-20:]
    assert together == list(range(len(together)))
    assert 0 <= len(together) - len(lives[1, 2]) <= 1  # it may have logged the step that the other one died in
    assert later == list(range(40, 60))
    assert lives[2, 2] == list(range(40, 60))
    assert 23 <= lives[1, 2][-1] < 30
    elastic, alone = (line["weights"] for line in told if "weights" in line)
    assert elastic == pytest.approx(alone, rel=1e-5)
