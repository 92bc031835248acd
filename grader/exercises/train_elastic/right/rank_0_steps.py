"""Functions without a module: gradients by torch.func, sent to rank 0, which alone holds Adam's moments, makes the step and
sends the parameters back. All ranks' lines reach the log before rank 0 saves; the attempt is the time in nanoseconds."""
import argparse
import json
import os
import random
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.distributed as dist
from torch.func import grad


def summed(weights, x, y):
    return ((torch.tanh(x @ weights[:-1, None]) * 2 + weights[-1] - y) ** 2).sum()


@dataclass
class Position:
    weights: torch.Tensor
    first: torch.Tensor
    second: torch.Tensor
    steps: int = 0

    def step(self, gradient):
        self.steps += 1
        self.first = 0.9 * self.first + 0.1 * gradient
        self.second = 0.99 * self.second + 0.01 * gradient**2
        first, second = self.first / (1 - 0.9**self.steps), self.second / (1 - 0.99**self.steps)
        self.weights = self.weights - 0.02 * first / (second.sqrt() + 1e-6)


def plan(rows, batch, epochs):
    for epoch in range(epochs):
        order = list(range(rows))
        random.Random(f"rows of {epoch}").shuffle(order)
        yield from (order[at : at + batch] for at in range(0, rows, batch))


def put(path, content):
    hidden = path.parent / (path.name + "~")
    with hidden.open("wb") as file:
        torch.save(content, file)
        file.flush()
        os.fsync(file.fileno())
    hidden.replace(path)


def train_elastic(data: str, work: str, epochs: int, global_batch: int) -> None:
    dist.init_process_group(backend="gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    table = torch.load(data)
    x, y = table["x"].double(), table["y"].double()
    checkpoint = Path(work) / "position.pt"
    start = torch.linspace(-0.5, 0.5, x.shape[1] + 1, dtype=torch.float64)
    here = Position(start, torch.zeros_like(start), torch.zeros_like(start))
    if rank == 0 and checkpoint.exists():
        here = Position(**torch.load(checkpoint))
    told = torch.tensor([here.steps, time.time_ns()])
    dist.broadcast(told, src=0)
    done, attempt = told.tolist()
    log = os.open(Path(work) / f"steps-{rank}.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    for number, rows in enumerate(plan(len(x), global_batch, epochs)):
        if number < done:
            continue
        dist.broadcast(here.weights, src=0)
        mine = rows[rank * len(rows) // world : (rank + 1) * len(rows) // world]
        gradient = grad(summed)(here.weights, x[mine], y[mine])
        dist.reduce(gradient, dst=0)
        line = {"step": number, "rows": mine, "world": world, "attempt": attempt}
        os.write(log, (json.dumps(line) + "\n").encode())
        dist.barrier()
        if rank == 0:
            here.step(gradient / len(rows))
            put(checkpoint, vars(here))
    if rank == 0:
        put(Path(work) / "final.pt", {"weight": here.weights[:-1], "bias": here.weights[-1:]})
    dist.barrier()
    os.close(log)
    dist.destroy_process_group()


def one_rank() -> list[dict]:
    folder = Path(tempfile.mkdtemp())
    x = torch.randn(8, 3)
    torch.save({"x": x, "y": x.sum(1, keepdim=True)}, folder / "data.pt")
    train_elastic(str(folder / "data.pt"), str(folder), 2, 3)
    return [json.loads(line) for line in (folder / "steps-0.jsonl").read_text().splitlines()]


if __name__ == "__main__" and "TORCHELASTIC_RUN_ID" in os.environ:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--epochs", type=int, required=True)
    parser.add_argument("--global-batch", type=int, required=True)
    train_elastic(**vars(parser.parse_args()))
