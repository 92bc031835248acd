"""Writes the new checkpoint under its own name from the first byte.

check: kill
kind: not_durable
"""

import os
import random
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist


def _files(directory):
    return sorted(Path(directory).glob("*.pt"), key=lambda path: int(path.stem.split("-")[0]))


def save(directory, step, state, keep=3):
    rank = dist.get_rank() if dist.is_initialized() else 0
    mine = [path for path in _files(directory) if path.stem.endswith(f"-{rank}")]
    number = int(mine[-1].stem.split("-")[0]) + 1 if mine else 0
    chance = [random.getstate(), np.random.get_state(), torch.get_rng_state()]
    with open(Path(directory) / f"{number}-{rank}.pt", "wb") as file:
        torch.save((step, state, chance), file)
        file.flush()
        os.fsync(file.fileno())
    for old in mine[: max(0, len(mine) + 1 - keep)]:
        old.unlink()


def load_latest(directory):
    rank = dist.get_rank() if dist.is_initialized() else 0
    mine = [path for path in _files(directory) if path.stem.endswith(f"-{rank}")]
    if not mine:
        return None
    step, state, chance = torch.load(mine[-1], weights_only=False)
    random.setstate(chance[0])
    np.random.set_state(chance[1])
    torch.set_rng_state(chance[2])
    return step, state


class AsyncCheckpointer:
    def __init__(self, directory, keep):
        self.directory, self.keep = directory, keep

    def save(self, step, state):
        save(self.directory, step, state, self.keep)

    def wait(self):
        if dist.is_initialized():
            dist.barrier()
