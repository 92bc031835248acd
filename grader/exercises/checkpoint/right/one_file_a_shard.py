"""One file a rank and checkpoint, with a checksum before the data; the newest number that all ranks have whole counts."""

import io
import os
import random
import struct
import zlib
from concurrent.futures import ThreadPoolExecutor

import numpy
import torch
import torch.distributed as dist

HEAD = struct.Struct(">4sIQ")


def me():
    return (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)


def mine(directory):
    """Number -> file name, of this rank's finished files."""
    end = f".rank{me()[0]}"
    return {int(name[: -len(end)]): os.path.join(directory, name) for name in os.listdir(directory) if name.endswith(end)}


def read(path):
    try:
        with open(path, "rb") as file:
            magic, checksum, size = HEAD.unpack(file.read(HEAD.size))
            data = file.read()
    except (OSError, struct.error):
        return None
    good = magic == b"ckpt" and len(data) == size and zlib.crc32(data) == checksum
    return torch.load(io.BytesIO(data), weights_only=False) if good else None


def pack(step, state):
    buffer = io.BytesIO()
    generators = random.getstate(), numpy.random.get_state(), torch.random.get_rng_state()
    torch.save([step, state, generators], buffer)
    return buffer.getbuffer()


def agree(number, operation, group):
    if me()[1] == 1:
        return number
    number = torch.tensor(number)
    dist.all_reduce(number, operation, group=group)
    return number.item()


def put(directory, data, keep, group=None):
    number = agree(max(mine(directory), default=-1) + 1, dist.ReduceOp.MAX, group)
    path = os.path.join(directory, f"{number}.rank{me()[0]}")
    descriptor = os.open(path + "~", os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
    for part in (HEAD.pack(b"ckpt", zlib.crc32(data), len(data)), data):
        view = memoryview(part)
        while view:
            view = view[os.write(descriptor, view) :]
    os.fdatasync(descriptor)
    os.close(descriptor)
    os.rename(path + "~", path)
    agree(0, dist.ReduceOp.MAX, group)
    for old in sorted(mine(directory))[:-keep]:
        os.unlink(mine(directory)[old])
    agree(0, dist.ReduceOp.MAX, group)


def save(directory, step, state, keep=3):
    put(directory, pack(step, state), keep)


def load_latest(directory):
    below = 2**40
    while True:
        files = mine(directory)
        newest = agree(max((n for n in files if n < below), default=-1), dist.ReduceOp.MIN, None)
        if newest < 0:
            return None
        found = read(files.get(newest, ""))
        if agree(int(found is not None), dist.ReduceOp.MIN, None):
            random.setstate(found[2][0])
            numpy.random.set_state(found[2][1])
            torch.random.set_rng_state(found[2][2])
            return found[0], found[1]
        below = newest


class AsyncCheckpointer:
    def __init__(self, directory, keep):
        self.where = directory, keep
        self.group = dist.new_group() if me()[1] > 1 else None
        self.pool, self.running = ThreadPoolExecutor(1), None

    def save(self, step, state):
        self.wait()
        self.running = self.pool.submit(put, self.where[0], pack(step, state), self.where[1], self.group)

    def wait(self):
        running, self.running = self.running, None
        if running is not None:
            running.result()
