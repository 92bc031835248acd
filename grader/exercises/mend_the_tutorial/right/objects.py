"""Object collectives (broadcast_object_list, gather_object, all_gather_object), torch.optim.SGD inside the server, an unbuffered file, Ray task defined inside the function, exact fractions."""

import contextlib
import copy
import io
import json
import os
import pathlib
from collections import Counter
from fractions import Fraction

import ray
import torch
import torch.distributed as dist
from torch.nn import functional


def share_labels(labels, n):
    box = [labels.tolist() if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(box, src=0)
    return torch.tensor(box[0], dtype=torch.int64).reshape(n)


def gather_counts(count):
    if dist.get_rank():
        dist.gather_object(int(count), None, dst=0)
        return None
    everyone = [None] * dist.get_world_size()
    dist.gather_object(int(count), everyone, dst=0)
    return everyone


class ParameterServer:
    """SGD itself: gradients are put into .grad for one step of torch.optim.SGD, and taken out again."""

    def __init__(self, model):
        self.parameters = tuple(model.parameters())

    def apply(self, gradients, lr):
        before = [p.grad for p in self.parameters]
        for p, g in zip(self.parameters, gradients):
            p.grad = None if g is None else g.detach().to(p.dtype)
        torch.optim.SGD(self.parameters, lr=lr).step()
        for p, g in zip(self.parameters, before):
            p.grad = g


def _average(model):
    """One row for all gradients; behind them, a vote for each parameter."""
    parameters = list(model.parameters())
    sizes = [p.numel() for p in parameters]
    parts = [torch.zeros(p.numel()) if p.grad is None else p.grad.detach().reshape(-1) for p in parameters]
    votes = torch.tensor([float(p.grad is not None) for p in parameters])
    row = torch.cat([*parts, votes])
    dist.all_reduce(row)
    *means, votes = row.split([*sizes, len(parameters)])
    for p, mean, vote in zip(parameters, means, votes.tolist()):
        p.grad = (mean / dist.get_world_size()).view_as(p) if vote else None


def train(model, batches, optimizer, loss_fn):
    losses = []
    for inputs, targets in batches:
        model.zero_grad(set_to_none=True)
        loss = loss_fn(model(inputs), targets)
        loss.backward()
        _average(model)
        optimizer.step()
        losses.append((loss.item(), len(targets)))
    all_losses = [None] * dist.get_world_size()
    dist.all_gather_object(all_losses, losses)
    pairs = [pair for losses in all_losses for pair in losses]
    return sum(loss * size for loss, size in pairs) / sum(size for _, size in pairs)


def masked_loss(logits, labels, mask):
    counted = logits[mask], labels[mask]
    counts = [None] * dist.get_world_size()
    dist.all_gather_object(counts, len(counted[1].reshape(-1)))
    if not counts[dist.get_rank()]:
        return (logits * 0).sum()
    total = functional.cross_entropy(*counted, reduction="sum")
    return total * (len(counts) / sum(counts))


def global_means(paths):
    @ray.remote(num_cpus=1)
    def read(path):
        rows = [json.loads(line) for line in pathlib.Path(path).read_text().splitlines() if line]
        sums, counts = Counter(), Counter()
        for row in rows:
            sums[row["key"]] += Fraction(row["value"])
            counts[row["key"]] += 1
        return sums, counts

    waiting = [read.remote(path) for path in paths]
    sums, counts = {}, Counter()
    while waiting:
        (done,), waiting = ray.wait(waiting, num_returns=1)
        for key, value in (pair := ray.get(done))[0].items():
            sums[key] = sums.get(key, 0) + value
        counts.update(pair[1])
    return {key: float(sums[key] / counts[key]) for key in counts}


def _write(model, optimizer, path):
    memory = io.BytesIO()
    torch.save(dict(model=model.state_dict(), optimizer=optimizer.state_dict()), memory)
    temporary = path.with_name(f".{path.name}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    with contextlib.closing(os.fdopen(descriptor, "wb", buffering=0)) as raw:
        rest = memory.getbuffer()
        while len(rest):
            rest = rest[raw.write(rest) :]
        os.fsync(descriptor)
    temporary.rename(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    os.fsync(folder)
    os.close(folder)


def save(model, optimizer, path):
    alone = not dist.is_initialized()
    if alone or dist.get_rank() == 0:
        _write(model, optimizer, pathlib.Path(path).resolve())
    if not alone:
        dist.all_reduce(torch.zeros(1))


def snapshot(model):
    return copy.deepcopy({name: value.detach() for name, value in model.state_dict().items()})
