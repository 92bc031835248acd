"""Ranks that nothing watches: what they return, raise and die of is told, and those that stand still are ended."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from courselib.bare import bare

CELL = """
import os
import torch
import torch.distributed as dist


def summed(times):
    x = torch.ones(2) * dist.get_rank() * times
    dist.all_reduce(x)
    return x


def unlike():
    x = torch.zeros(3) if dist.get_rank() else torch.tensor([1, 2, 3])
    dist.broadcast(x, 0)


def leaves():
    if dist.get_rank():
        os._exit(3)
    return "stays"


def raises():
    raise ValueError("of rank " + str(dist.get_rank()) + chr(10) + "and more")


def waits():
    if dist.get_rank():
        dist.barrier()
    import signal
    signal.pause()
"""


@pytest.mark.heavy
def test_what_became_of_each_rank(tmp_path: Path) -> None:
    file = tmp_path / "cell_of_a_test.py"
    file.write_text(CELL)
    found = importlib.util.spec_from_file_location(file.stem, file)
    assert found is not None
    assert found.loader is not None
    cell = sys.modules[file.stem] = importlib.util.module_from_spec(found)
    found.loader.exec_module(cell)

    told = bare((cell.summed, 2), cell.unlike, cell.leaves, cell.raises)
    assert told[0] == ["[2.0, 2.0]", "[2.0, 2.0]"]
    assert told[1][0] == "None"
    assert told[1][1].startswith("ended by SIGABRT: op.preamble.length <= op.nbytes. 24 vs 12.")
    assert told[2] == ["stays", "left with exit status 3"]
    assert told[3] == ["ValueError: of rank 0", "ValueError: of rank 1"]
    assert bare(cell.waits, patience=3)[0][0] == "stood still, and was ended"
