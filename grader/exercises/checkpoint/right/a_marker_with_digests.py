"""One folder per checkpoint with a file per rank and a marker with all digests; one function publishes for both the plain and the background way; errors travel to all ranks."""

import hashlib
import io
import json
import os
import random
import re
import shutil
import threading
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist


def place(group=None):
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(group), dist.get_world_size(group)
    return 0, 1


def share(thing, group):
    """Everybody's thing, on every rank."""
    size = place(group)[1]
    if size == 1:
        return [thing]
    things = [None] * size
    dist.all_gather_object(things, thing, group=group)
    return things


def generators():
    return {"python": random.getstate(), "numpy": np.random.get_state(), "torch": torch.get_rng_state()}


def freeze(step, state):
    buffer = io.BytesIO()
    torch.save({"step": step, "state": state, "generators": generators()}, buffer)
    return buffer.getvalue()


def sync_folder(folder):
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def durable(path, data):
    temporary = path.with_name(path.name + ".tmp")
    with open(temporary, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    sync_folder(path.parent)


def folders(directory):
    """Number -> folder of all checkpoints, also the unfinished ones."""
    found = {}
    for path in Path(directory).iterdir():
        match = re.fullmatch(r"checkpoint-(\d+)", path.name)
        if match:
            found[int(match[1])] = path
    return found


def rotate(directory, keep):
    found = folders(directory)
    complete = sorted((number for number in found if (found[number] / "complete").exists()), reverse=True)
    kept = set(complete[:keep])
    for number, path in found.items():
        if number not in kept:
            (path / "complete").unlink(missing_ok=True)
            shutil.rmtree(path, ignore_errors=True)


def publish(directory, keep, blob, group=None):
    rank, _ = place(group)
    trouble = None
    path = digest = None
    try:
        number = max(folders(directory), default=0) + 1 if rank == 0 else None
    except OSError as error:
        number, trouble = None, error
    number = share(number, group)[0]
    try:
        if number is not None:
            path = Path(directory) / f"checkpoint-{number}"
            path.mkdir(exist_ok=True)
            durable(path / f"rank-{rank}", blob)
            sync_folder(directory)
            digest = hashlib.sha256(blob).hexdigest()
    except OSError as error:
        trouble = error
    digests = share(digest, group)
    if rank == 0 and None not in digests:
        try:
            durable(path / "complete", json.dumps(digests).encode())
            rotate(directory, keep)
        except OSError as error:
            trouble = error
    fine = all(share(trouble is None and digest is not None, group))
    if trouble is not None:
        raise trouble
    if not fine:
        raise RuntimeError("another rank could not write its part of the checkpoint")


def thaw(path, rank, size):
    try:
        digests = json.loads((path / "complete").read_bytes())
        blob = (path / f"rank-{rank}").read_bytes()
        if len(digests) != size or hashlib.sha256(blob).hexdigest() != digests[rank]:
            return None
        return torch.load(io.BytesIO(blob), weights_only=False)
    except (OSError, ValueError, TypeError):
        return None


def save(directory, step, state, keep=3):
    publish(directory, keep, freeze(step, state))


def load_latest(directory):
    rank, size = place()
    found = share(sorted(folders(directory).items(), reverse=True), None)[0]
    for _, path in found:
        held = thaw(path, rank, size)
        if all(share(held is not None, None)):
            random.setstate(held["generators"]["python"])
            np.random.set_state(held["generators"]["numpy"])
            torch.set_rng_state(held["generators"]["torch"])
            return held["step"], held["state"]
    return None


class AsyncCheckpointer:
    def __init__(self, directory, keep):
        self.directory, self.keep = directory, keep
        self.group = dist.new_group() if place()[1] > 1 else None
        self.thread = self.error = None

    def save(self, step, state):
        self.wait()
        blob = freeze(step, state)
        self.thread = threading.Thread(target=self._work, args=(blob,))
        self.thread.start()

    def _work(self, blob):
        try:
            publish(self.directory, self.keep, blob, self.group)
        except BaseException as error:
            self.error = error

    def wait(self):
        if self.thread is not None:
            self.thread.join()
            self.thread = None
        error, self.error = self.error, None
        if error is not None:
            raise error
