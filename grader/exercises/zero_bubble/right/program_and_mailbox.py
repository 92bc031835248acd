"""The schedule is a generator of (letter, micro-batch), receives are posted ahead by a mailbox, outputs in a dict."""

from functools import partial

import torch
import torch.distributed as dist


def program(p, s, m):
    """The passes of stage s in order: pairs of a letter and a micro-batch."""
    ahead = min(p - s, m)  # forward passes before the first B
    yield from (("F", i) for i in range(ahead))
    weights = 0
    for i in range(m):
        yield "B", i
        if i >= s:
            yield "W", weights
            weights += 1
        if i + ahead < m:
            yield "F", i + ahead
    yield from (("W", i) for i in range(weights, m))


class Mailbox:
    """Receives are posted two ahead, so that a neighbour's send never waits for us."""

    def __init__(self, peer, shape, count):
        self.post = partial(torch.empty, shape)
        self.peer, self.left, self.posted = peer, count, []

    def refill(self):
        while self.left and len(self.posted) < 2:
            buffer = self.post()
            self.posted.append((dist.irecv(buffer, self.peer), buffer))
            self.left -= 1

    def take(self):
        self.refill()
        job, buffer = self.posted.pop(0)
        self.refill()
        job.wait()
        return buffer


def run_zb_h1(stage, inputs, targets, loss_fn, micro_batches):
    p, s, m = dist.get_world_size(), dist.get_rank(), micro_batches
    size = inputs.shape[0] // m
    shape = tuple(stage.activation_shape(size))
    xs = iter(inputs.split(size)) if s == 0 else None
    ys = iter(targets.split(size)) if s == p - 1 else None
    down = Mailbox(s - 1, shape, m) if s else None
    up = Mailbox(s + 1, shape, m) if s < p - 1 else None
    for box in filter(None, (down, up)):
        box.refill()
    outputs, sends, losses = {}, [], []

    for letter, i in program(p, s, m):
        if letter == "F":
            outputs[i] = stage(next(xs) if down is None else down.take())
            if up is not None:
                sends.append(dist.isend(outputs[i].detach(), s + 1))
        elif letter == "B":
            if up is None:
                leaf = outputs[i].detach().clone().requires_grad_()
                loss = loss_fn(leaf, next(ys))
                (loss / m).backward()
                losses.append(float(loss.detach()))
                grad = leaf.grad
            else:
                grad = up.take()
            grad = stage.backward_input(outputs[i], grad)
            if down is not None:
                sends.append(dist.isend(grad.contiguous(), s - 1))
        else:
            stage.backward_weight(outputs.pop(i))
    for job in sends:
        job.wait()
    return sum(losses) / m if up is None else None
