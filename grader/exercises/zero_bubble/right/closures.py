"""All isends are kept and waited for at the end, blocking receives, closures with nonlocal counters."""

from collections import deque

import torch
import torch.distributed as dist


def run_zb_h1(stage, inputs, targets, loss_fn, micro_batches):
    p, s, m = dist.get_world_size(), dist.get_rank(), micro_batches
    first, last = s == 0, s == p - 1
    size = len(inputs) // m
    shape = stage.activation_shape(size)
    to_b, to_w = deque(), deque()  # outputs that wait for B, and for W
    sends = []
    total = 0.0
    done_f = done_b = 0

    def part(batch, number):
        return batch[number * size : (number + 1) * size]

    def send(tensor, peer):
        tensor = tensor.detach().contiguous()
        sends.append((dist.isend(tensor, peer), tensor))

    def forward():
        nonlocal done_f
        if first:
            x = part(inputs, done_f)
        else:
            x = torch.empty(shape)
            dist.recv(x, s - 1)
        output = stage(x)
        done_f += 1
        if not last:
            send(output, s + 1)
        to_b.append(output)

    def backward():
        nonlocal done_b, total
        output = to_b.popleft()
        if last:
            leaf = output.detach().requires_grad_()
            with torch.enable_grad():
                loss = loss_fn(leaf, part(targets, done_b)) / m
                (grad,) = torch.autograd.grad(loss, leaf)
            total += loss.item()
        else:
            grad = torch.empty(shape)
            dist.recv(grad, s + 1)
        done_b += 1
        grad = stage.backward_input(output, grad)
        if not first:
            send(grad, s - 1)
        to_w.append(output)
        if len(to_w) > s:
            stage.backward_weight(to_w.popleft())

    warm = min(p - s - 1, m)
    for _ in range(warm):
        forward()
    for _ in range(m - warm):
        forward()
        backward()
    for _ in range(warm):
        backward()
    while to_w:
        stage.backward_weight(to_w.popleft())
    for job, _ in sends:
        job.wait()
    return total if last else None
