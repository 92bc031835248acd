"""Point to point, flat buffers, foreach operations, log_softmax, and a temporary file of the library."""
import io
import json
import os
import tempfile
from collections import Counter
from pathlib import Path

import ray
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.utils import parameters_to_vector


def share_labels(labels, n):
    if dist.get_rank() == 0:
        result = labels.clone().contiguous()
        for request in [dist.isend(result, peer) for peer in range(1, dist.get_world_size()) if n]:
            request.wait()
        return result
    result = torch.empty(n, dtype=torch.long)
    if n:
        dist.recv(result, 0)
    return result


def gather_counts(count):
    table = torch.zeros(dist.get_world_size(), dtype=torch.int64)
    table[dist.get_rank()] = count
    dist.reduce(table, dst=0)
    return table.tolist() if dist.get_rank() == 0 else None


class ParameterServer:
    def __init__(self, model: nn.Module) -> None:
        self.model = model

    @torch.no_grad()
    def apply(self, gradients, lr):
        pairs = [(p, g) for p, g in zip(self.model.parameters(), gradients) if g is not None]
        if pairs:
            torch._foreach_add_([p for p, _ in pairs], [g for _, g in pairs], alpha=-lr)


class Averaged:
    """One flat message a step: each parameter's gradient and, at the end, which of them are there."""

    def __init__(self, model):
        self.parameters = [p for p in model.parameters() if p.requires_grad]

    def step(self):
        there = torch.tensor([float(p.grad is not None) for p in self.parameters], dtype=torch.float64)
        grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in self.parameters]
        flat = torch.cat([parameters_to_vector(grads).double(), there]) if grads else there
        dist.all_reduce(flat)
        at = 0
        for p, anywhere in zip(self.parameters, flat[len(flat) - len(there):].tolist()):
            mean = flat[at: at + p.numel()].view_as(p) / dist.get_world_size()
            p.grad = mean.to(p.dtype) if anywhere else None
            at += p.numel()


def train(model, batches, optimizer, loss_fn):
    averaged = Averaged(model)
    tally = torch.zeros(2, dtype=torch.float64)
    for inputs, targets in batches:
        optimizer.zero_grad()
        loss = loss_fn(model(inputs), targets)
        loss.backward()
        averaged.step()
        optimizer.step()
        tally += torch.tensor([loss.item() * inputs.shape[0], inputs.shape[0]], dtype=torch.float64)
    dist.all_reduce(tally)
    return float(tally[0] / tally[1])


def masked_loss(logits, labels, mask):
    chosen, wanted = logits[mask], labels[mask]
    own = -chosen.log_softmax(-1).gather(-1, wanted.long().unsqueeze(-1)).sum()
    everywhere = torch.tensor(len(wanted))
    dist.all_reduce(everywhere)
    return own * (dist.get_world_size() / max(int(everywhere), 1)) + 0 * logits.sum()


def read(path):
    sums, counts = Counter(), Counter()
    with open(path) as lines:
        for row in map(json.loads, lines):
            sums[row["key"]] += row["value"]
            counts[row["key"]] += 1
    return sums, counts


def global_means(paths):
    task = ray.remote(read)
    results = ray.get([task.remote(path) for path in paths])
    sums, counts = Counter(), Counter()
    for some, many in results:
        for key in many:
            sums[key] += some[key]
            counts[key] += many[key]
    return {key: sums[key] / counts[key] for key in counts}


def save(model, optimizer, path):
    together = dist.is_initialized()
    if not together or dist.get_rank() == 0:
        content = io.BytesIO()
        torch.save(dict(model=model.state_dict(), optimizer=optimizer.state_dict()), content)
        folder = Path(path).absolute().parent
        with tempfile.NamedTemporaryFile(dir=folder, delete=False) as file:
            file.write(content.getbuffer())
            file.flush()
            os.fsync(file)
        Path(file.name).replace(path)
        entry = os.open(folder, os.O_DIRECTORY)
        os.fsync(entry)
        os.close(entry)
    if together:
        dist.all_reduce(torch.zeros(1))


def snapshot(model):
    buffer = io.BytesIO()
    torch.save(model.state_dict(), buffer)
    buffer.seek(0)
    return dict(torch.load(buffer))
