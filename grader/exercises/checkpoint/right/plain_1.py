import hashlib
import io
import os
import random
import shutil
import threading
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist

# A directory holds one folder a checkpoint, 00000001, 00000002, ...: a file `shard-R` of each rank, and when all of
# them are on the disk, the file `complete` with their digests. A folder without it is no checkpoint.


def _rank():
    return dist.get_rank() if dist.is_initialized() else 0


def _gathered(value, group):
    """Every rank's value, on every rank."""
    if not dist.is_initialized():
        return [value]
    values = [None] * dist.get_world_size()
    dist.all_gather_object(values, value, group=group)
    return values


def _write(path, data):
    """All of the data under this name, or nothing."""
    new = path.with_suffix(".new")
    with open(new, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(new, path)
    folder = os.open(path.parent, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)


def _numbers(directory):
    """The numbers of the checkpoints that are there, begun or complete, oldest first."""
    return sorted(int(path.name) for path in Path(directory).glob("[0-9]*") if path.name.isdigit())


def _packed(step, state):
    """A copy of everything that a training goes on from."""
    chance = {"python": random.getstate(), "numpy": np.random.get_state(), "torch": torch.get_rng_state()}
    memory = io.BytesIO()
    torch.save({"step": step, "state": state, "chance": chance}, memory)
    return memory.getvalue()


def _publish(directory, data, keep, group=None):
    """Write this rank's shard, and when all ranks have written theirs, say that the checkpoint is complete."""
    directory = Path(directory)
    number = _gathered(max(_numbers(directory), default=0) + 1, group)[0]
    folder = directory / f"{number:08d}"
    said = {"digest": hashlib.sha256(data).hexdigest(), "error": None}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _write(folder / f"shard-{_rank()}", data)
    except OSError as error:
        said["error"] = error
    shards = _gathered(said, group)  # who has them all knows that all are on the disk
    for shard in shards:
        if shard["error"] is not None:
            raise shard["error"]
    if _rank() == 0:
        _write(folder / "complete", "\n".join(shard["digest"] for shard in shards).encode())
        complete = [n for n in _numbers(directory) if (directory / f"{n:08d}" / "complete").exists()]
        for old in set(_numbers(directory)) - set(complete[-keep:]):
            shutil.rmtree(directory / f"{old:08d}")
    _gathered(None, group)  # nobody returns before it is published


def _shard(folder):
    """This rank's shard of a checkpoint; None if it is not complete, or damaged."""
    try:
        data = (folder / f"shard-{_rank()}").read_bytes()
        digests = (folder / "complete").read_text().split("\n")
    except (OSError, UnicodeDecodeError):
        return None
    whole = _rank() < len(digests) and hashlib.sha256(data).hexdigest() == digests[_rank()]
    return data if whole else None


def save(directory, step, state, keep=3):
    _publish(directory, _packed(step, state), keep)


def load_latest(directory):
    for number in reversed(_gathered(_numbers(directory), None)[0]):
        data = _shard(Path(directory) / f"{number:08d}")
        if all(_gathered(data is not None, None)):  # all ranks use the same checkpoint
            found = torch.load(io.BytesIO(data), weights_only=False)
            random.setstate(found["chance"]["python"])
            np.random.set_state(found["chance"]["numpy"])
            torch.set_rng_state(found["chance"]["torch"])
            return found["step"], found["state"]
    return None


class AsyncCheckpointer:
    def __init__(self, directory, keep):
        self.directory, self.keep = directory, keep
        self.group = dist.new_group() if dist.is_initialized() else None  # training uses the other one meanwhile
        self.thread = self.error = None

    def save(self, step, state):
        self.wait()  # one in flight
        data = _packed(step, state)  # now: what comes later is training's
        self.thread = threading.Thread(target=self._write, args=(data,))
        self.thread.start()

    def _write(self, data):
        try:
            _publish(self.directory, data, self.keep, self.group)
        except BaseException as error:
            self.error = error

    def wait(self):
        if self.thread is not None:
            self.thread.join()
            self.thread = None
        error, self.error = self.error, None
        if error is not None:
            raise error
