"""A folder for each number with a shard of each rank and a file of their digests, in the background by a thread."""

import hashlib
import io
import os
import random
import shutil
import threading

import numpy as np
import torch
import torch.distributed as dist


def ranks():
    return (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)


def write(path, data):
    with open(path + ".tmp", "wb") as f:
        f.write(data)
        f.flush()
        os.fsync(f.fileno())
    os.replace(path + ".tmp", path)
    sync_dir(os.path.dirname(path))


def sync_dir(path):
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)


def pack(step, state):
    rng = (random.getstate(), np.random.get_state(), torch.get_rng_state())
    f = io.BytesIO()
    torch.save({"step": step, "state": state, "rng": rng}, f)
    return f.getvalue()


def numbers(directory):
    return sorted(int(n[3:]) for n in os.listdir(directory) if n.startswith("ck-"))


def publish(directory, data, keep, group=None):
    rank, n = ranks()
    number = [None]
    if rank == 0:
        number[0] = max(numbers(directory), default=0) + 1
        folder = os.path.join(directory, f"ck-{number[0]}")
        os.mkdir(folder)
        sync_dir(directory)
    if n > 1:
        dist.broadcast_object_list(number, src=0, group=group)
    folder = os.path.join(directory, f"ck-{number[0]}")
    write(os.path.join(folder, f"shard-{rank}"), data)
    digests = [hashlib.sha256(data).hexdigest()]
    if n > 1:
        mine, digests = digests[0], [None] * n
        dist.all_gather_object(digests, mine, group=group)
    if rank == 0:
        text = "\n".join(digests)
        text += "\n" + hashlib.sha256(text.encode()).hexdigest()
        write(os.path.join(folder, "complete"), text.encode())
        done = [k for k in numbers(directory) if os.path.exists(os.path.join(directory, f"ck-{k}", "complete"))]
        for k in done[:-keep]:
            old = os.path.join(directory, f"ck-{k}")
            os.remove(os.path.join(old, "complete"))
            shutil.rmtree(old)
    if n > 1:
        dist.barrier(group=group)


def save(directory, step, state, keep=3):
    publish(directory, pack(step, state), keep)


def read(directory, number):
    folder = os.path.join(directory, f"ck-{number}")
    rank, n = ranks()
    try:
        with open(os.path.join(folder, "complete")) as f:
            *digests, own = f.read().split("\n")
        if hashlib.sha256("\n".join(digests).encode()).hexdigest() != own:
            return None
        with open(os.path.join(folder, f"shard-{rank}"), "rb") as f:
            data = f.read()
        return data if hashlib.sha256(data).hexdigest() == digests[rank] else None
    except (OSError, ValueError, IndexError):
        return None


def load_latest(directory):
    rank, n = ranks()
    found = {}
    for k in numbers(directory):
        data = read(directory, k)
        if data is not None:
            found[k] = data
    common = set(found)
    if n > 1:
        all_found = [None] * n
        dist.all_gather_object(all_found, set(found))
        common = set.intersection(*all_found)
    if not common:
        return None
    c = torch.load(io.BytesIO(found[max(common)]), weights_only=False)
    a, b, t = c["rng"]
    random.setstate(a)
    np.random.set_state(b)
    torch.set_rng_state(t)
    return c["step"], c["state"]


class AsyncCheckpointer:
    def __init__(self, directory, keep):
        self.directory, self.keep = directory, keep
        self.thread = self.error = None
        self.group = dist.new_group() if ranks()[1] > 1 else None

    def save(self, step, state):
        self.wait()
        data = pack(step, state)
        self.thread = threading.Thread(target=self.run, args=(data,))
        self.thread.start()

    def run(self, data):
        try:
            publish(self.directory, data, self.keep, self.group)
        except BaseException as e:
            self.error = e

    def wait(self):
        if self.thread is not None:
            self.thread.join()
            self.thread = None
        error, self.error = self.error, None
        if error is not None:
            raise error
