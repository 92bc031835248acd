"""One case of a check, as it is graded, and in this process under a debugger."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from grader import registry
from grader.authoring import run, wrong
from grader.submission import BadRequest

CASE = "3 ranks, 9 float64"
STOPS = """\
import torch.distributed as dist


def ring_all_reduce(tensor):
    seen = dist.get_rank() + 40
    if seen == 41:
        breakpoint()
    tensor *= 0
"""
WAITS = """\
import torch.distributed as dist


def ring_all_reduce(tensor):
    dist.recv(tensor, (dist.get_rank() + 1) % dist.get_world_size())
"""


def here(source: str, tmp_path: Path, *options: str, typed: str = "") -> subprocess.CompletedProcess[str]:
    (tmp_path / "mine.py").write_text(source)
    words = [sys.executable, "-m", "grader.cli", "exercise", "run", "ring_all_reduce", str(tmp_path / "mine.py")]
    return subprocess.run([*words, *options, "--here"], input=typed, capture_output=True, text=True)


def test_a_breakpoint_stops_a_simulated_rank_in_this_process(tmp_path: Path) -> None:
    done = here(STOPS, tmp_path, "--check", "sum", "--case", CASE, typed="p seen\nc\n")
    assert "mine.py(8)ring_all_reduce()" in done.stdout
    assert "(Pdb) 41\n" in done.stdout
    assert "sum: wrong_result: With 3 ranks, 9 float64: on rank 0, every element is wrong" in done.stdout
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.heavy
def test_a_deadlock_is_told_as_it_is_graded(tmp_path: Path) -> None:
    done = here(WAITS, tmp_path, "--check", "sum", "--case", CASE)
    assert done.stdout.startswith("sum: deadlock: Deadlock, a cycle of 3 ranks: rank 0 waits to receive 72 bytes")
    assert done.stdout.count("\n") == 1, "what is unwound at the end has nothing to say"


@pytest.mark.heavy
def test_all_that_is_right_passes_here(tmp_path: Path) -> None:
    done = here(wrong.reference("ring_all_reduce").source, tmp_path, "--case", "3 ranks, 18 int64")
    assert "requests: passes" in done.stdout
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("name", "check", "label", "why"),
    [
        ("ring_all_reduce", "sums", "", "has no check called 'sums'"),
        ("ring_all_reduce", "sum", "17 ranks", "no case called '17 ranks'; with seed 1 there are: 1 rank, 3 float64;"),
        ("raft", "votes", "x", "so has no cases: leave --case out"),
    ],
)
def test_what_is_not_there_cannot_be_chosen(name: str, check: str, label: str, why: str) -> None:
    with pytest.raises(BadRequest, match=why):
        run.chosen(name, check, label, 1)


@pytest.mark.parametrize("name", ["raft", "elastic_training", "spark_rdd"])
def test_only_ranks_run_here(name: str, tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="cannot run here: its programs are separate processes"):
        run.here(registry.find(name), tmp_path / "x.py", 1)
