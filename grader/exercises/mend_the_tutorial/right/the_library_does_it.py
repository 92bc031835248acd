"""Objects where objects do: broadcast_object_list, gather_object, torch's own SGD, deepcopy."""
import contextlib
import copy
import json
import os
import pathlib

import ray
import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional


def share_labels(labels, n):
    box = [labels.tolist() if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(box, src=0)
    return torch.tensor(box[0], dtype=torch.int64).reshape(n)


def gather_counts(count):
    counts = [None] * dist.get_world_size() if dist.get_rank() == 0 else None
    dist.gather_object(int(count), counts, dst=0)
    return counts


class ParameterServer:
    def __init__(self, model: nn.Module) -> None:
        self.parameters = list(model.parameters())

    def apply(self, gradients, lr):
        kept = [p.grad for p in self.parameters]
        for p, g in zip(self.parameters, gradients, strict=True):
            p.grad = None if g is None else g.detach().clone()
        torch.optim.SGD(self.parameters, lr=lr).step()
        for p, g in zip(self.parameters, kept, strict=True):
            p.grad = g


def train(model, batches, optimizer, loss_fn):
    parameters = list(model.parameters())
    ranks = dist.get_world_size()
    losses, samples = 0.0, 0
    for inputs, targets in batches:
        optimizer.zero_grad(set_to_none=True)
        loss = loss_fn(model(inputs), targets)
        loss.backward()
        mine = [index for index, p in enumerate(parameters) if p.grad is not None]
        everyone = [None] * ranks
        dist.all_gather_object(everyone, mine)
        for index in sorted(set().union(*everyone)):
            p = parameters[index]
            if p.grad is None:
                p.grad = torch.zeros_like(p)
            dist.all_reduce(p.grad)
            p.grad.div_(ranks)
        optimizer.step()
        losses += loss.item() * len(inputs)
        samples += len(inputs)
    everyone = [None] * ranks
    dist.all_gather_object(everyone, (losses, samples))
    return sum(loss for loss, _ in everyone) / sum(count for _, count in everyone)


def masked_loss(logits, labels, mask):
    counts = mask.sum()
    dist.all_reduce(counts)
    safe = torch.where(mask, labels, -100)
    mine = functional.cross_entropy(logits.flatten(0, -2), safe.flatten().long(), ignore_index=-100, reduction="sum")
    return mine * dist.get_world_size() / counts.clamp(min=1)


@ray.remote
def sums(path):
    found = {}
    for line in pathlib.Path(path).read_text().splitlines():
        row = json.loads(line)
        total, rows = found.get(row["key"], (0.0, 0))
        found[row["key"]] = total + row["value"], rows + 1
    return found


def global_means(paths):
    waiting = [sums.remote(path) for path in paths]
    totals = {}
    while waiting:
        (ready,), waiting = ray.wait(waiting)
        for key, (total, rows) in ray.get(ready).items():
            before = totals.get(key, (0.0, 0))
            totals[key] = before[0] + total, before[1] + rows
    return {key: total / rows for key, (total, rows) in totals.items()}


@contextlib.contextmanager
def synced(path, flags, mode=0o644):
    descriptor = os.open(path, flags, mode)
    try:
        yield descriptor
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def save(model, optimizer, path):
    if not dist.is_initialized() or dist.get_rank() == 0:
        fresh = f"{path}.new"
        with synced(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as descriptor:
            with open(descriptor, "wb", closefd=False) as file:
                torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
        os.rename(fresh, path)
        with synced(os.path.dirname(os.path.abspath(path)), os.O_RDONLY):
            pass
    if dist.is_initialized():
        dist.barrier()


def snapshot(model):
    return copy.deepcopy({name: tensor.detach() for name, tensor in model.state_dict().items()})
