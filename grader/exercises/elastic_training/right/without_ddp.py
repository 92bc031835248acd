"""Averages gradients by hand, draws each epoch's order from its own seed, and keeps two numbered checkpoints."""

import hashlib
import io
import json
import os
import sys
from argparse import ArgumentParser
from glob import glob

import numpy as np
import torch
import torch.distributed as dist


def write(path, payload):
    with open(path + ".tmp", "wb") as f:
        f.write(hashlib.sha1(payload).digest() + payload)
        f.flush()
        os.fsync(f.fileno())
    os.rename(path + ".tmp", path)


def newest(work):
    for path in sorted(glob(os.path.join(work, "at-*")), reverse=True):
        if path.endswith(".tmp"):
            continue
        with open(path, "rb") as f:
            raw = f.read()
        if hashlib.sha1(raw[20:]).digest() == raw[:20]:
            return torch.load(io.BytesIO(raw[20:]), weights_only=False)
    return None


def main(argv):
    parser = ArgumentParser()
    for name, kind in (("--data", str), ("--work", str), ("--epochs", int)):
        parser.add_argument(name, type=kind)
    parser.add_argument("--batch-size", type=int, default=8)
    args = parser.parse_args(argv)
    dist.init_process_group(backend="gloo")
    me, world = dist.get_rank(), dist.get_world_size()
    data = torch.load(args.data)
    torch.manual_seed(1234)
    net = torch.nn.Linear(data["x"].shape[1], 1)
    adam = torch.optim.Adam(net.parameters(), lr=0.02)
    step = 0
    found = newest(args.work)
    if found:
        net.load_state_dict(found["net"])
        adam.load_state_dict(found["adam"])
        step = found["step"]
    log = open(os.path.join(args.work, f"steps-{me}.jsonl"), "a", buffering=1)
    count = len(data["x"])
    per_epoch = -(-count // (world * args.batch_size))
    while step < per_epoch * args.epochs:
        epoch, position = divmod(step, per_epoch)
        order = np.random.default_rng(epoch).permutation(count)
        mine = order[position * world * args.batch_size :][: world * args.batch_size][me::world].tolist()
        adam.zero_grad()
        loss = (net(data["x"][mine]) - data["y"][mine]).pow(2).mean()
        loss.backward()
        for p in net.parameters():
            dist.all_reduce(p.grad)
            p.grad /= world
        adam.step()
        print(json.dumps({"rows": mine, "step": step}), file=log)
        step += 1
        dist.barrier()
        if me == 0:
            buffer = io.BytesIO()
            torch.save({"net": net.state_dict(), "adam": adam.state_dict(), "step": step}, buffer)
            write(os.path.join(args.work, f"at-{step:06d}"), buffer.getvalue())
            for old in sorted(glob(os.path.join(args.work, "at-??????")))[:-2]:
                os.remove(old)
        dist.barrier()
    if me == 0:
        torch.save(net.state_dict(), os.path.join(args.work, "final.pt"))
    dist.barrier()
    dist.destroy_process_group()


main(sys.argv[1:])
