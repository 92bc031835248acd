"""The job of chapter 11: a rank is killed, and the training ends as one in which nobody was."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from courselib import language

LAB = Path(__file__).parent.parent.parent / "course" / "labs" / "elastic_demo.py"


@pytest.mark.heavy
def test_a_killed_job_resumes_and_learns_the_same(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "--max-restarts=2"]
    settings = {**os.environ, "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1", "OMP_NUM_THREADS": "1"}
    asked = [LAB, tmp_path, "130", str(language.STEPS)]
    done = subprocess.run([*command, *asked], env=settings, check=False, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    log = [json.loads(line) for line in (tmp_path / "log-1.jsonl").read_text().splitlines()]
    steps = [(life, first, last) for life, what, first, last, *_ in log if what == "steps"]
    assert steps == [*((0, k, k + 9) for k in range(0, 130, 10)), *((1, k, k + 9) for k in range(120, 200, 10))]
    ddp = next(row for row in language.RECORDED if row.way == "DDP")
    for rank in range(2):
        result = json.loads((tmp_path / f"result-{rank}.json").read_text())
        assert result["loss"] == pytest.approx(ddp.after, abs=0.03)
        assert (result["state"], result["activations"]) == (ddp.state, ddp.activations)
