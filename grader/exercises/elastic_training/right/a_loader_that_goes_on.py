"""A data loader over a sampler that can be entered in the middle."""

import argparse
import json
import os
import tempfile

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset, Sampler


class Rows(Dataset):
    def __init__(self, path):
        self.data = torch.load(path)

    def __len__(self):
        return len(self.data["x"])

    def __getitem__(self, row):
        return row, self.data["x"][row], self.data["y"][row]


class GoingOn(Sampler):
    def __init__(self, size, epoch, skip):
        self.size, self.epoch, self.skip = size, epoch, skip

    def __iter__(self):
        generator = torch.Generator()
        generator.manual_seed(99 + self.epoch)
        order = torch.randperm(self.size, generator=generator)
        return iter(order[dist.get_rank() :: dist.get_world_size()].tolist()[self.skip :])

    def __len__(self):
        return self.size // dist.get_world_size() - self.skip


def atomically(path, save):
    descriptor, name = tempfile.mkstemp(dir=os.path.dirname(path))
    with os.fdopen(descriptor, "wb") as file:
        save(file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(name, path)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--epochs", type=int, required=True)
    parser.add_argument("--batch-size", type=int, default=4)
    o = parser.parse_args()
    dist.init_process_group("gloo")
    rows, rank = Rows(o.data), dist.get_rank()
    weight = torch.zeros(rows.data["x"].shape[1], 1, requires_grad=True)
    velocity, epoch, taken, step = torch.zeros_like(weight), 0, 0, 0
    kept = os.path.join(o.work, "kept")
    if os.path.exists(kept):
        weight.data, velocity, epoch, taken, step = torch.load(kept)
    while epoch < o.epochs:
        for numbers, x, y in DataLoader(rows, o.batch_size, sampler=GoingOn(len(rows), epoch, taken * o.batch_size)):
            (gradient,) = torch.autograd.grad(F.mse_loss(x @ weight, y), weight)
            dist.all_reduce(gradient, dist.ReduceOp.SUM)
            velocity = 0.9 * velocity + gradient / dist.get_world_size()
            weight.data -= 0.01 * velocity
            with open(f"{o.work}/steps-{rank}.jsonl", "a") as log:
                log.write(json.dumps(dict(step=step, rows=numbers.tolist())) + "\n")
            dist.barrier()
            taken, step = taken + 1, step + 1
            if rank == 0:
                atomically(kept, lambda file: torch.save((weight.data, velocity, epoch, taken, step), file))
            dist.barrier()
        epoch, taken = epoch + 1, 0
    if rank == 0:
        atomically(os.path.join(o.work, "final.pt"), lambda file: torch.save({"weight": weight.data}, file))
    dist.barrier()


if __name__ == "__main__":
    main()
