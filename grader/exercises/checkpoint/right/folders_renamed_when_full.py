"""A folder for each checkpoint, which rank 0 renames as a whole when all shards are in it; pickle, whose tensors are copied
by hand; crc32 at the end of each shard; a thread that takes its work from a queue."""
import copy
import os
import pickle
import queue
import random
import shutil
import struct
import threading
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist


class Team:
    """The ranks, or nobody else."""

    def __init__(self, group=None):
        self.group = group
        self.alone = not dist.is_initialized() or dist.get_world_size() == 1
        self.rank = 0 if self.alone else dist.get_rank()
        self.size = 1 if self.alone else dist.get_world_size()

    def gather(self, value):
        values = [value] * self.size
        if not self.alone:
            dist.all_gather_object(values, value, group=self.group)
        return values


def sync_folder(path):
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    os.fsync(descriptor)
    os.close(descriptor)


def snapshot(step, state):
    return {"step": step, "state": copy.deepcopy(state), "rng": (random.getstate(), np.random.get_state(), torch.get_rng_state())}


def numbered(directory):
    return sorted(int(name) for name in os.listdir(directory) if name.isdigit())


def write(team, directory, content, keep):
    body = pickle.dumps(content, protocol=pickle.HIGHEST_PROTOCOL)
    number = max([-1, *team.gather(max(numbered(directory), default=-1))]) + 1
    unfinished = Path(directory, f"unfinished-{number}")
    if team.rank == 0:
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir()
    team.gather(None)
    with open(unfinished / f"shard{team.rank}of{team.size}", "wb") as file:
        file.write(body)
        file.write(struct.pack("<QI", len(body), zlib.crc32(body)))
        file.flush()
        os.fsync(file.fileno())
    team.gather(None)
    if team.rank == 0:
        sync_folder(unfinished)
        unfinished.rename(Path(directory, str(number)))
        sync_folder(directory)
        for old in numbered(directory)[:-keep]:
            doomed = Path(directory, f"unfinished-old{old}")
            Path(directory, str(old)).rename(doomed)
            shutil.rmtree(doomed)
    team.gather(None)


def read(team, folder):
    try:
        content = (folder / f"shard{team.rank}of{team.size}").read_bytes()
    except OSError:
        return None
    if len(content) < 12:
        return None
    length, crc = struct.unpack("<QI", content[-12:])
    body = content[:-12]
    return pickle.loads(body) if len(body) == length and zlib.crc32(body) == crc else None


def save(directory: str, step: int, state: Any, keep: int = 3) -> None:
    write(Team(), directory, snapshot(step, state), keep)


def load_latest(directory: str) -> tuple[int, Any] | None:
    team = Team()
    for number in reversed(team.gather(numbered(directory))[0]):
        content = read(team, Path(directory, str(number)))
        if all(team.gather(content is not None)):
            python, numpy, generator = content["rng"]
            random.setstate(python)
            np.random.set_state(numpy)
            torch.set_rng_state(generator)
            return content["step"], content["state"]
    return None


class AsyncCheckpointer:
    def __init__(self, directory: str, keep: int) -> None:
        self.team = Team(dist.new_group() if dist.is_initialized() else None)
        self.directory, self.keep = directory, keep
        self.work, self.error = queue.Queue(), None
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            content = self.work.get()
            try:
                write(self.team, self.directory, content, self.keep)
            except BaseException as error:
                self.error = error
            self.work.task_done()

    def save(self, step: int, state: Any) -> None:
        self.wait()
        self.work.put(snapshot(step, state))

    def wait(self) -> None:
        self.work.join()
        error, self.error = self.error, None
        if error is not None:
            raise error


def save_and_load() -> str:
    import tempfile

    directory = tempfile.mkdtemp()
    for step in (1, 2):
        save(directory, step, {"weights": torch.arange(4) * step}, keep=2)
    return f"{load_latest(directory)}"
