"""labs/gpt2_padding.py shows what padding does to a GPT-2's loss, where the library transformers is installed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import labs
import pytest

LAB = labs.FOLDER / "gpt2_padding.py"
OWN = labs.FOLDER.parent.parent / "build" / "labs" / "gpt2" / "bin" / "python"  # where `make labs` sets it up


def test_without_the_library_it_says_so_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.util\nfound = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name, *more: None if name == 'transformers' else found(name, *more)\n"
    )
    done = subprocess.run(
        [sys.executable, LAB], check=False, capture_output=True, text=True, env={"PYTHONPATH": str(tmp_path)}
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("This lab needs transformers")


def test_padding_that_counts_makes_the_reported_loss_small_and_the_real_one_no_better() -> None:
    python = OWN if OWN.is_file() else Path(sys.executable)
    done = subprocess.run([python, LAB, "--json"], check=False, capture_output=True, text=True, timeout=600)
    if done.returncode == 2:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout.splitlines()[-1])["figures"]
    assert "does not have a padding token" in figures["refused"]
    assert 0 < figures["padding"] < figures["places"]
    assert 0 < figures["true_ends"] <= 8  # of eight speeches; a speech that is cut short has no end
    assert figures["input_ids reported"] < figures["input_ids real"] - 0.5
    assert abs(figures["masked reported"] - figures["masked real"]) < 0.5
    assert figures["masked real"] <= figures["input_ids real"] + 0.05
