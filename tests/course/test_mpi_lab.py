"""The lab on MPI: in its environment, its collectives give what gloo's give; elsewhere, one sentence."""

from __future__ import annotations

import importlib.util
import json
import signal
import subprocess
import sys

import labs
import pytest

LAB = labs.FOLDER / "mpi_collectives.py"


@pytest.mark.heavy
def test_collectives_are_equal_and_reductions_and_small_sends_differ() -> None:
    figures = json.loads(labs.run_or_skip(LAB, "--json", seconds=280, python=labs.python_or_skip("mpi")))["figures"]
    assert figures["same"] == figures["collectives"] == 10
    assert (figures["mpi_kept"], figures["gloo_kept"]) == (1, 0)  # reduce, and a rank that is not the root
    assert (figures["mpi_ops"], figures["gloo_ops"], figures["same_ops"]) == (12, 8, 7)
    assert (figures["ordered"], figures["persistent"]) == (1, 1)
    assert figures["tests"] >= 1  # nine or more in our runs, but that is a matter of time
    assert "MPI_ERR_BUFFER" in figures["twice"]
    sends = [figures[f"{on}_{size}"] for on in ("mpi", "gloo") for size in ("small", "large")]
    assert sends == [1, 0, 0, 0]  # only MPI's small one is over before the receive


@pytest.mark.heavy
@pytest.mark.parametrize("number", labs.BY_TERMINATION, ids=lambda number: number.name)
def test_no_rank_outlives_the_lab(number: signal.Signals) -> None:
    labs.kill_once_started(LAB, number, "python", python=labs.python_or_skip("mpi"))


@pytest.mark.skipif(importlib.util.find_spec("mpi4py") is not None, reason="mpi4py is installed here")
def test_without_mpi_there_is_one_sentence() -> None:
    done = subprocess.run([sys.executable, str(LAB)], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert (
        done.stderr.strip()
        == "MPI is not installed: make labs LABS=mpi sets up an environment with mpi4py and Open MPI"
    )
