"""Objects instead of tensors where there is little to send; means that tasks of Ray add up in a tree."""

import copy
import json
import os
import pathlib
import tempfile

import ray
import torch
import torch.distributed as dist
import torch.nn.functional as F


def share_labels(labels, n):
    box = [None if labels is None else labels.tolist()]
    dist.broadcast_object_list(box, src=0)
    return torch.tensor(box[0], dtype=torch.long).reshape(n)


def gather_counts(count):
    rank, world = dist.get_rank(), dist.get_world_size()
    found = [None] * world if rank == 0 else None
    dist.gather_object(count, found, dst=0)
    return found


class ParameterServer:
    def __init__(self, model):
        self._parameters = list(model.parameters())

    def apply(self, gradients, lr):
        for p, g in zip(self._parameters, gradients):
            if g is None:
                continue
            p.data.add_(g, alpha=-lr)


def train(model, batches, optimizer, loss_fn):
    world = dist.get_world_size()
    names = [name for name, _ in model.named_parameters()]
    everything = dict(model.named_parameters())
    mine = []
    for x, y in batches:
        for p in everything.values():
            p.grad = None
        loss = loss_fn(model(x), y)
        loss.backward()
        mine.append((float(loss), len(x)))
        all_used = [None] * world
        dist.all_gather_object(all_used, [name for name in names if everything[name].grad is not None])
        wanted = [name for name in names if any(name in used for used in all_used)]
        flat = torch.cat([
            (everything[name].grad if everything[name].grad is not None else torch.zeros_like(everything[name])).reshape(-1)
            for name in wanted
        ])
        dist.all_reduce(flat)
        flat /= world
        at = 0
        for name in wanted:
            p = everything[name]
            p.grad = flat[at : at + p.numel()].view_as(p).clone()
            at += p.numel()
        optimizer.step()
    everybody = [None] * world
    dist.all_gather_object(everybody, mine)
    pairs = [pair for part in everybody for pair in part]
    return sum(loss * n for loss, n in pairs) / sum(n for _, n in pairs)


def masked_loss(logits, labels, mask):
    safe = torch.where(mask, labels, torch.zeros_like(labels))
    logp = F.log_softmax(logits, dim=-1)
    nll = -logp.gather(-1, safe.unsqueeze(-1)).squeeze(-1)
    total = (nll * mask).sum()
    n = torch.tensor([int(mask.sum())])
    dist.all_reduce(n)
    return total * dist.get_world_size() / max(int(n), 1)


@ray.remote
def _read(path):
    out = {}
    for line in pathlib.Path(path).read_text().splitlines():
        if line.strip():
            row = json.loads(line)
            entry = out.setdefault(row["key"], [0.0, 0])
            entry[0] += row["value"]
            entry[1] += 1
    return out


@ray.remote
def _merge(a, b):
    out = {key: list(entry) for key, entry in a.items()}
    for key, (total, count) in b.items():
        entry = out.setdefault(key, [0.0, 0])
        entry[0] += total
        entry[1] += count
    return out


def global_means(paths):
    refs = [_read.remote(p) for p in paths]
    if not refs:
        return {}
    while len(refs) > 1:
        refs = [_merge.remote(refs[i], refs[i + 1]) if i + 1 < len(refs) else refs[i] for i in range(0, len(refs), 2)]
    return {key: total / count for key, (total, count) in ray.get(refs[0]).items()}


def save(model, optimizer, path):
    group = dist.is_available() and dist.is_initialized()
    if not group or dist.get_rank() == 0:
        target = pathlib.Path(path)
        fd, name = tempfile.mkstemp(dir=target.parent, prefix=target.name)
        os.close(fd)
        torch.save(dict(model=model.state_dict(), optimizer=optimizer.state_dict()), name)
        with open(name, "rb+") as f:
            os.fsync(f.fileno())
        os.rename(name, target)
        d = os.open(target.parent, os.O_DIRECTORY)
        try:
            os.fsync(d)
        finally:
            os.close(d)
    if group:
        dist.all_reduce(torch.zeros(1))


def snapshot(model):
    return copy.deepcopy(dict(model.state_dict()))
