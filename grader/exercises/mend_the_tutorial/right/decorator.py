"""Save behind a decorator that runs on rank 0 and waits, counts by a sum of one-hot rows, log_softmax and gather in place of cross_entropy, a NamedTemporaryFile."""

import functools
import json
import os
import tempfile
from itertools import groupby

import ray
import torch
import torch.distributed as dist
from torch.nn import functional


def on_rank_0(function):
    """Runs the function on rank 0 only; the other ranks wait for it."""

    @functools.wraps(function)
    def wrapper(*arguments):
        if not dist.is_initialized():
            return function(*arguments)
        if dist.get_rank() == 0:
            function(*arguments)
        dist.barrier()

    return wrapper


def share_labels(labels, n):
    if dist.get_rank() > 0:
        labels = torch.zeros(n, dtype=torch.int64)
    else:
        labels = labels.clone(memory_format=torch.contiguous_format)
    row = torch.cat([labels, labels.new_zeros(1)])  # never empty
    dist.broadcast(row, 0)
    return row[:n].clone()


def gather_counts(count):
    everyone = torch.zeros(dist.get_world_size(), dtype=torch.int64)
    everyone[dist.get_rank()] = count
    dist.reduce(everyone, 0)
    return everyone.tolist() if dist.get_rank() == 0 else None


class ParameterServer:
    def __init__(self, model):
        self.model = model

    def apply(self, gradients, lr):
        pairs = [(p.detach(), g) for p, g in zip(self.model.parameters(), gradients) if g is not None]
        for data, gradient in pairs:
            data.add_(gradient.detach(), alpha=-lr)


def train(model, batches, optimizer, loss_fn):
    total, samples = 0.0, 0
    named = dict(model.named_parameters())
    for inputs, targets in batches:
        for p in named.values():
            p.grad = None
        loss = loss_fn(model(inputs), targets)
        loss.backward()
        mine = {name for name, p in named.items() if p.grad is not None}
        sets = [None] * dist.get_world_size()
        dist.all_gather_object(sets, mine)
        for name in sorted(set().union(*sets)):
            p = named[name]
            everyone = [torch.empty(p.shape, dtype=p.dtype) for _ in sets]
            dist.all_gather(everyone, (torch.zeros_like(p) if p.grad is None else p.grad).contiguous())
            p.grad = torch.stack(everyone).mean(0)
        optimizer.step()
        total += loss.detach().double() * inputs.shape[0]
        samples += inputs.shape[0]
    pair = torch.stack([torch.as_tensor(total, dtype=torch.float64), torch.tensor(float(samples), dtype=torch.float64)])
    dist.all_reduce(pair)
    return (pair[0] / pair[1]).item()


def masked_loss(logits, labels, mask):
    count = torch.count_nonzero(mask)
    dist.all_reduce(count)
    log_probabilities = functional.log_softmax(logits, -1)
    safe = labels.masked_fill(~mask, 0).long()
    picked = log_probabilities.gather(-1, safe.unsqueeze(-1)).squeeze(-1)
    mine = -(picked * mask).sum()
    return mine * dist.get_world_size() / max(int(count), 1)


@ray.remote
def _rows(path):
    with open(path, encoding="utf-8") as file:
        return [(row["key"], row["value"]) for row in map(json.loads, filter(str.strip, file))]


def global_means(paths):
    files = ray.get(list(map(_rows.remote, paths)))
    rows = sorted((row for file in files for row in file), key=lambda row: row[0])
    means = {}
    for key, group in groupby(rows, key=lambda row: row[0]):
        values = [value for _, value in group]
        means[key] = sum(values) / len(values)
    return means


@on_rank_0
def save(model, optimizer, path):
    folder = os.path.dirname(os.fspath(path)) or "."
    with tempfile.NamedTemporaryFile(dir=folder, prefix="checkpoint-", delete=False) as file:
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
        file.flush()
        os.fsync(file.fileno())
    os.rename(file.name, path)
    descriptor = os.open(folder, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def snapshot(model):
    copies = {}
    for name, value in model.state_dict(keep_vars=True).items():
        copies[name] = torch.empty_like(value, requires_grad=False).copy_(value.detach())
    return copies
