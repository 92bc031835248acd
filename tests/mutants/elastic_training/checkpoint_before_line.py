"""Writes a step's checkpoint before the step's line: killed in between, the line is missing for ever.

check: rows
kind: lost_or_duplicated
"""

import argparse
import json
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DistributedSampler


def save(obj, path):
    with open(path + ".tmp", "wb") as f:
        torch.save(obj, f)
        f.flush()
        os.fsync(f.fileno())
    os.replace(path + ".tmp", path)


def train(data, work, epochs, batch_size):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    d = torch.load(data)
    x, y = d["x"], d["y"]
    torch.manual_seed(0)
    model = DDP(torch.nn.Linear(x.shape[1], 1))
    opt = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    sampler = DistributedSampler(range(len(x)), seed=3)
    done = 0
    ck = os.path.join(work, "ck.pt")
    if os.path.exists(ck):
        c = torch.load(ck)
        model.module.load_state_dict(c["model"])
        opt.load_state_dict(c["opt"])
        done = c["done"]
    dist.barrier()
    step = 0
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        rows_all = list(sampler)
        for i in range(0, len(rows_all), batch_size):
            step += 1
            if step <= done:
                continue
            rows = rows_all[i : i + batch_size]
            opt.zero_grad()
            torch.nn.functional.mse_loss(model(x[rows]), y[rows]).backward()
            opt.step()
            if rank == 0:
                save({"model": model.module.state_dict(), "opt": opt.state_dict(), "done": step}, ck)
            dist.barrier()
            with open(f"{work}/steps-{rank}.jsonl", "a") as f:
                f.write(json.dumps({"step": step - 1, "rows": rows}) + "\n")
    if rank == 0:
        save(model.module.state_dict(), f"{work}/final.pt")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--data")
    p.add_argument("--work")
    p.add_argument("--epochs", type=int)
    p.add_argument("--batch-size", type=int, default=8)
    train(**vars(p.parse_args()))
