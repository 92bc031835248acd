"""keep + 1 slots, used in turn; each rank's file names its sequence number, and the newest that all have whole counts."""

import contextlib
import hashlib
import os
import random
import threading
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist


def several():
    return dist.is_available() and dist.is_initialized()


def everybody(value, group=None):
    if not several():
        return [value]
    found = [None] * dist.get_world_size()
    dist.all_gather_object(found, value, group=group)
    return found


class Slot:
    def __init__(self, directory, number):
        me = dist.get_rank() if several() else 0
        self.data = Path(directory) / f"slot{number}.{me}.pt"
        self.seal = Path(directory) / f"slot{number}.{me}.seal"

    def write(self, content):
        with contextlib.suppress(FileNotFoundError):
            self.seal.unlink()
        torch.save(content, self.data)
        digest = hashlib.md5(self.data.read_bytes()).hexdigest()
        self.seal.write_text(f"{content['sequence']} {digest}")
        for path in (self.data, self.seal):
            with open(path, "rb+") as file:
                os.fsync(file)

    def sequence(self):
        """The sequence number of a slot that is whole, or 0."""
        try:
            number, digest = self.seal.read_text().split()
            return int(number) if hashlib.md5(self.data.read_bytes()).hexdigest() == digest else 0
        except (OSError, ValueError):
            return 0


def content(step, state):
    return {"step": step, "state": state, "py": random.getstate(), "np": np.random.get_state(), "t": torch.get_rng_state()}


def whole(directory, group=None):
    """Sequence number -> slot, of those that every rank has whole."""
    mine = {slot.sequence(): slot for slot in (Slot(directory, n) for n in range(16))}
    common = set.intersection(*map(set, everybody(sorted(mine), group)))
    return {number: slot for number, slot in mine.items() if number and number in common}


def write(directory, what, keep, group=None):
    last = max(whole(directory, group), default=0)
    what["sequence"] = last + 1
    error = None
    try:
        Slot(directory, (last + 1) % (keep + 1)).write(what)
    except Exception as caught:
        error = caught
    for each in everybody(error, group):
        if each is not None:
            raise each
    oldest = Slot(directory, (last + 2) % (keep + 1))  # goes when all have the new one
    oldest.seal.unlink(missing_ok=True)
    oldest.data.unlink(missing_ok=True)


def save(directory, step, state, keep=3):
    write(directory, content(step, state), keep)


def load_latest(directory):
    found = whole(directory)
    if not found:
        return None
    loaded = torch.load(found[max(found)].data, weights_only=False)
    random.setstate(loaded["py"])
    np.random.set_state(loaded["np"])
    torch.set_rng_state(loaded["t"])
    return loaded["step"], loaded["state"]


def cloned(value):
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, dict):
        return {key: cloned(part) for key, part in value.items()}
    return type(value)(map(cloned, value)) if isinstance(value, (list, tuple)) else value


class AsyncCheckpointer:
    def __init__(self, directory, keep):
        self.directory, self.keep = directory, keep
        self.group = dist.new_group(backend="gloo") if several() else None
        self.idle, self.problems = threading.Event(), []
        self.idle.set()

    def save(self, step, state):
        self.wait()
        self.idle.clear()
        what = content(step, cloned(state))
        threading.Thread(target=self.work, args=[what], daemon=True).start()

    def work(self, what):
        try:
            write(self.directory, what, self.keep, self.group)
        except Exception as problem:
            self.problems.append(problem)
        finally:
            self.idle.set()

    def wait(self):
        self.idle.wait()
        if self.problems:
            raise self.problems.pop()
