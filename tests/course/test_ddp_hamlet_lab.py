"""The lab that measures chapter 07's model under DDP runs on as many processes as torchrun starts."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

LAB = Path(__file__).parent.parent.parent / "course" / "labs" / "ddp_hamlet.py"


@pytest.mark.heavy
def test_it_says_how_many_tokens_a_second_all_ranks_do() -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", LAB, "--steps=3"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"2 ranks: [\d,]+ tokens/s, [\d.]+ ms a step, loss \d\.\d\d\n", done.stdout)
