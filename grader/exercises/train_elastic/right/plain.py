"""Sums gradients by hand; rank 0 saves after each step, when all ranks have logged it."""

import argparse
import json
import os
from pathlib import Path

import torch
import torch.distributed as dist

SEED = 7


def write(path: Path, value: object) -> None:
    new = path.with_suffix(".new")
    with open(new, "wb") as file:
        torch.save(value, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(new, path)


def started(folder: Path, rank: int) -> int:
    path, box = folder / "attempt.pt", [0]
    if rank == 0:
        box = [torch.load(path) + 1 if path.exists() else 1]
        write(path, box[0])
    dist.broadcast_object_list(box)
    return box[0]


def train_elastic(data: str, work: str, epochs: int, global_batch: int) -> None:
    dist.init_process_group("gloo")
    rank, world, folder = dist.get_rank(), dist.get_world_size(), Path(work)
    held = torch.load(data)
    x, y = held["x"], held["y"]
    torch.manual_seed(SEED)
    model = torch.nn.Sequential(torch.nn.Linear(x.shape[1], 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    attempt = started(folder, rank)
    done = 0
    if (folder / "checkpoint.pt").exists():
        found = torch.load(folder / "checkpoint.pt")
        model.load_state_dict(found["model"])
        optimizer.load_state_dict(found["optimizer"])
        done = found["done"]
    steps = -(-len(x) // global_batch)
    while done < epochs * steps:
        epoch, position = divmod(done, steps)
        order = torch.randperm(len(x), generator=torch.Generator().manual_seed(1000 * SEED + epoch))
        rows = order[position * global_batch : (position + 1) * global_batch]
        mine = rows[rank::world]
        optimizer.zero_grad()
        ((model(x[mine]) - y[mine]).pow(2).sum() / len(rows)).backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
        optimizer.step()
        line = {"step": done, "rows": mine.tolist(), "world": world, "attempt": attempt}
        with open(folder / f"steps-{rank}.jsonl", "a") as log:
            log.write(json.dumps(line) + "\n")
        done += 1
        dist.barrier()  # all lines are there
        if rank == 0:
            write(folder / "checkpoint.pt", {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "done": done})
        dist.barrier()
    if rank == 0:
        write(folder / "final.pt", model.state_dict())
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--epochs", type=int, required=True)
    parser.add_argument("--global-batch", type=int, required=True)
    train_elastic(**vars(parser.parse_args()))
