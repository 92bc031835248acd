"""Files are written in place under a fresh number, each with its length and CRC; a commit file is written last."""

from __future__ import annotations

import concurrent.futures as futures
import copy
import json
import os
import pickle
import random
import re
import struct
import zlib
from contextlib import closing
from pathlib import Path

import numpy
import torch
from torch import distributed

MAGIC = b"CKPT0001"


class Damaged(Exception):
    pass


class Store:
    pattern = re.compile(r"commit\.(\d{12})$")

    def __init__(self, root, group=None):
        self.root = Path(root)
        self.group = group
        on = distributed.is_available() and distributed.is_initialized()
        self.rank = distributed.get_rank() if on else 0
        self.size = distributed.get_world_size() if on else 1

    def _put(self, name: str, blob: bytes) -> None:
        fd = os.open(self.root / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        try:
            whole = memoryview(MAGIC + struct.pack("<QI", len(blob), zlib.crc32(blob)) + blob + MAGIC)
            while whole:
                whole = whole[os.write(fd, whole) :]
            os.fsync(fd)
        finally:
            os.close(fd)
        fd = os.open(self.root, os.O_DIRECTORY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def _get(self, name: str) -> bytes:
        try:
            raw = (self.root / name).read_bytes()
        except OSError as e:
            raise Damaged(name) from e
        if len(raw) < 28 or raw[:8] != MAGIC or raw[-8:] != MAGIC:
            raise Damaged(name)
        length, crc = struct.unpack_from("<QI", raw, 8)
        blob = raw[20:-8]
        if len(blob) != length or zlib.crc32(blob) != crc:
            raise Damaged(name)
        return blob

    def commits(self) -> list[int]:
        return sorted(int(m[1]) for m in map(self.pattern.match, os.listdir(self.root)) if m)

    def fence(self) -> None:
        if self.size > 1:
            distributed.barrier(group=self.group)

    def publish(self, blob: bytes, keep: int) -> None:
        used = [int(p.split(".")[1]) for p in os.listdir(self.root) if p.split(".")[0] in ("commit", "shard")]
        slot = torch.tensor([max(used, default=0) + 1])
        if self.size > 1:
            distributed.all_reduce(slot, op=distributed.ReduceOp.MAX, group=self.group)
        slot = int(slot)
        self._put(f"shard.{slot:012d}.{self.rank}", blob)
        self.fence()
        if self.rank == 0:
            self._put(f"commit.{slot:012d}", json.dumps({"ranks": self.size}).encode())
            for old in self.commits()[:-keep]:
                os.unlink(self.root / f"commit.{old:012d}")
                for path in self.root.glob(f"shard.{old:012d}.*"):
                    path.unlink()
        self.fence()

    def newest(self):
        for slot in reversed(self.commits()):
            try:
                count = json.loads(self._get(f"commit.{slot:012d}"))["ranks"]
                if count != self.size:
                    continue
                blobs = [self._get(f"shard.{slot:012d}.{r}") for r in range(count)]
            except Damaged:
                continue
            return blobs[self.rank]
        return None


def _freeze(step, state) -> bytes:
    generators = dict(py=random.getstate(), np=numpy.random.get_state(), th=torch.random.get_rng_state())
    return pickle.dumps((step, copy.deepcopy(state), generators), protocol=pickle.HIGHEST_PROTOCOL)


def save(directory, step, state, keep=3):
    Store(directory).publish(_freeze(step, state), keep)


def load_latest(directory):
    blob = Store(directory).newest()
    if blob is None:
        return None
    step, state, g = pickle.loads(blob)
    random.setstate(g["py"])
    numpy.random.set_state(g["np"])
    torch.random.set_rng_state(g["th"])
    return step, state


class AsyncCheckpointer:
    def __init__(self, directory, keep):
        on = distributed.is_initialized() and distributed.get_world_size() > 1
        self._store = Store(directory, distributed.new_group(backend="gloo") if on else None)
        self._keep = keep
        self._pool = futures.ThreadPoolExecutor(max_workers=1)
        self._pending: futures.Future | None = None

    def save(self, step, state):
        self.wait()
        self._pending = self._pool.submit(self._store.publish, _freeze(step, state), self._keep)

    def wait(self):
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.result()
