"""The mean loss of a micro-batch is divided by the number of samples of the whole batch.

check: gpipe
kind: wrong_result
"""

import torch
import torch.distributed as dist


def run(stage, inputs, targets, loss_fn, m, warm):
    rank = dist.get_rank()
    size = dist.get_world_size()
    first = rank == 0
    last = rank == size - 1
    micro = len(inputs) // m
    xs = inputs.split(micro)
    ys = targets.split(micro)
    shape = stage.activation_shape(micro)
    queue = []
    sends = []
    total = 0.0

    def forward(i):
        nonlocal total
        if first:
            x = xs[i]
        else:
            x = torch.empty(shape)
            dist.recv(x, rank - 1)
            x.requires_grad_()
        y = stage(x)
        if last:
            y = loss_fn(y, ys[i]) / len(inputs)
            total += y.item() * len(inputs) / m
        else:
            wait()
            sends.append(dist.isend(y.detach(), rank + 1))
        queue.append((x, y))

    def wait():
        while sends:
            sends.pop().wait()

    def backward():
        x, y = queue.pop(0)
        if last:
            y.backward()
        else:
            g = torch.empty(shape)
            dist.recv(g, rank + 1)
            y.backward(g)
        if not first:
            wait()
            sends.append(dist.isend(x.grad, rank - 1))

    warm = min(warm, m)
    for i in range(warm):
        forward(i)
    for i in range(warm, m):
        forward(i)
        backward()
    for i in range(warm):
        backward()
    wait()
    return total if last else None


def run_gpipe(stage, inputs, targets, loss_fn, micro_batches):
    return run(stage, inputs, targets, loss_fn, micro_batches, micro_batches)


def run_1f1b(stage, inputs, targets, loss_fn, micro_batches):
    return run(stage, inputs, targets, loss_fn, micro_batches, dist.get_world_size() - dist.get_rank() - 1)
