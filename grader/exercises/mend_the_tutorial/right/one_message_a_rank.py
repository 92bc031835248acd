"""Point-to-point messages, an optimizer behind the server, and gradients with a flag beside each."""

import io
import json
import os

import ray
import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy


def share_labels(labels, n):
    if dist.get_rank() == 0:
        for request in [dist.isend(labels.contiguous(), peer) for peer in range(1, dist.get_world_size()) if n]:
            request.wait()
        return labels.clone()
    labels = torch.zeros(n, dtype=torch.int64)
    if n > 0:
        dist.recv(labels, 0)
    return labels


def gather_counts(count):
    all_counts = torch.zeros(dist.get_world_size(), dtype=torch.int64)
    all_counts[dist.get_rank()] = count
    dist.reduce(all_counts, dst=0)
    return all_counts.tolist() if dist.get_rank() == 0 else None


class ParameterServer:
    def __init__(self, model):
        self.optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        self.own = list(model.parameters())

    def apply(self, gradients, lr):
        self.optimizer.param_groups[0]["lr"] = lr
        for parameter, gradient in zip(self.own, gradients):
            parameter.grad = gradient
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)


def train(model, batches, optimizer, loss_fn):
    world = dist.get_world_size()
    loss_sum, samples = 0.0, 0
    for x, y in batches:
        optimizer.zero_grad(set_to_none=True)
        loss = loss_fn(model(x), y)
        loss.backward()
        loss_sum += loss.detach().item() * x.shape[0]
        samples += x.shape[0]
        for p in model.parameters():
            flag = torch.ones(1) if p.grad is not None else torch.zeros(1)
            dist.all_reduce(flag)
            if flag.item() == 0:
                continue
            grad = p.grad if p.grad is not None else p.new_zeros(p.shape)
            dist.all_reduce(grad)
            p.grad = grad.div_(world)
        optimizer.step()
    numbers = torch.tensor([loss_sum, samples]).double()
    dist.all_reduce(numbers)
    return float(numbers[0] / numbers[1])


def masked_loss(logits, labels, mask):
    own = mask.sum().to(torch.float64)
    everybody = own.clone()
    dist.all_reduce(everybody)
    flat, kept = logits.reshape(-1, logits.shape[-1]), mask.reshape(-1)
    targets = labels.reshape(-1).masked_fill(~kept, -100)
    summed = cross_entropy(flat, targets, ignore_index=-100, reduction="sum")
    return summed * dist.get_world_size() / everybody.clamp(min=1)


@ray.remote(num_cpus=0.5)
class _Unused:
    pass


@ray.remote(num_cpus=1)
def sums(path):
    totals, counts = {}, {}
    with open(path, encoding="utf-8") as file:
        for row in map(json.loads, file):
            totals[row["key"]] = totals.get(row["key"], 0) + row["value"]
            counts[row["key"]] = counts.get(row["key"], 0) + 1
    return totals, counts


def global_means(paths):
    waiting = [sums.remote(str(path)) for path in paths]
    totals, counts = {}, {}
    while waiting:
        done, waiting = ray.wait(waiting)
        for t, c in ray.get(done):
            for key in t:
                totals[key] = totals.get(key, 0) + t[key]
                counts[key] = counts.get(key, 0) + c[key]
    return {key: totals[key] / counts[key] for key in totals}


def save(model, optimizer, path):
    rank = dist.get_rank() if dist.is_initialized() else 0
    if rank == 0:
        buffer = io.BytesIO()
        torch.save({"optimizer": optimizer.state_dict(), "model": model.state_dict()}, buffer)
        data, temporary = buffer.getvalue(), str(path) + f".{os.getpid()}.tmp"
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        while data:
            data = data[os.write(fd, data) :]
        os.fsync(fd)
        os.close(fd)
        os.replace(temporary, path)
        fd = os.open(os.path.dirname(os.path.abspath(path)), os.O_RDONLY)
        os.fsync(fd)
        os.close(fd)
    if dist.is_initialized():
        dist.barrier()


def snapshot(model):
    with torch.no_grad():
        return {name: torch.empty_like(tensor).copy_(tensor) for name, tensor in model.state_dict().items()}
