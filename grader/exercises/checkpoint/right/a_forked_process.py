"""A forked process writes what memory held at the fork; the shards are published in wait(), by renaming their folder."""

import copy
import hashlib
import os
import pickle
import random
import shutil
import sys

import numpy as np
import torch
import torch.distributed as dist


def rank():
    return dist.get_rank() if dist.is_initialized() else 0


def barrier():
    if dist.is_initialized():
        dist.barrier()


def shared(value):
    values = [value]
    if dist.is_initialized():
        dist.broadcast_object_list(values, 0)
    return values[0]


def sync(path):
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def dump(path, step, state):
    data = pickle.dumps((step, state, random.getstate(), np.random.get_state(), torch.get_rng_state()))
    with open(path, "wb") as file:
        file.write(hashlib.blake2b(data).digest() + data)
    sync(path)


def begin(directory):
    """The folder in which the shards of the next checkpoint are written."""
    numbers = [int(name.split("-")[1]) for name in os.listdir(directory) if name.startswith("done-")]
    name = shared(f"{max(numbers, default=0) + 1:06d}")
    folder = os.path.join(directory, f"part-{name}")
    if rank() == 0:
        shutil.rmtree(folder, ignore_errors=True)
        os.mkdir(folder)
    barrier()
    return folder


def publish(directory, folder, keep):
    barrier()
    if rank() == 0:
        sync(folder)
        os.rename(folder, folder.replace("part-", "done-"))
        sync(directory)
        for old in sorted(name for name in os.listdir(directory) if name.startswith("done-"))[:-keep]:
            shutil.rmtree(os.path.join(directory, old))
    barrier()


def save(directory, step, state, keep=3):
    folder = begin(directory)
    dump(os.path.join(folder, str(rank())), step, state)
    publish(directory, folder, keep)


def whole(path):
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError:
        return None
    return data[64:] if hashlib.blake2b(data[64:]).digest() == data[:64] else None


def load_latest(directory):
    for name in shared(sorted((n for n in os.listdir(directory) if n.startswith("done-")), reverse=True)):
        data = whole(os.path.join(directory, name, str(rank())))
        good = torch.tensor(data is not None, dtype=torch.int32)
        if dist.is_initialized():
            dist.all_reduce(good, dist.ReduceOp.MIN)
        if good:
            step, state, python, numpy, generator = pickle.loads(data)
            random.setstate(python), np.random.set_state(numpy), torch.set_rng_state(generator)
            return step, state
    return None


class AsyncCheckpointer:
    def __init__(self, directory, keep):
        self.directory, self.keep, self.child, self.folder = directory, keep, None, None

    def save(self, step, state):
        self.wait()
        self.folder = begin(self.directory)
        sys.stdout.flush()
        state = copy.copy(state)
        python = random.getstate()  # a fork seeds it anew
        self.child = os.fork()
        if self.child == 0:
            status = 1
            try:
                random.setstate(python)
                dump(os.path.join(self.folder, str(rank())), step, state)
                status = 0
            finally:
                os._exit(status)

    def wait(self):
        if self.child is None:
            return
        child, self.child = self.child, None
        if os.waitpid(child, 0)[1]:
            raise OSError(f"the process that writes to {self.folder} failed")
        publish(self.directory, self.folder, self.keep)
