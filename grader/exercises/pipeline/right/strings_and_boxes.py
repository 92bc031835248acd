"""Schedules are strings of F and B. An inbox keeps the next receive posted, an outbox the last send."""

import torch
import torch.distributed as dist


class Inbox:
    """`count` tensors from one neighbour; the next is always being received."""

    def __init__(self, peer, shape, count):
        self.peer, self.shape, self.left = peer, shape, count
        self.buffer = self.request = None
        self.post()

    def post(self):
        if self.left:
            self.left -= 1
            self.buffer = torch.empty(self.shape, dtype=torch.float32)
            self.request = dist.irecv(self.buffer, self.peer)
        else:
            self.buffer = self.request = None

    def take(self):
        self.request.wait()
        buffer = self.buffer
        self.post()
        return buffer


class Outbox:
    """Sends to one neighbour, one after the other."""

    def __init__(self, peer):
        self.peer, self.request, self.payload = peer, None, None

    def put(self, tensor):
        self.close()
        self.payload = tensor.detach().contiguous()
        self.request = dist.isend(self.payload, self.peer)

    def close(self):
        if self.request is not None:
            self.request.wait()
        self.request = self.payload = None


def train(schedule, stage, inputs, targets, loss_fn, micro_batches):
    rank, size = dist.get_rank(), dist.get_world_size()
    is_first, is_last = rank == 0, rank == size - 1
    per = inputs.shape[0] // micro_batches
    shape = stage.activation_shape(per)
    activations = gradients = down = up = None
    if not is_first:
        activations, up = Inbox(rank - 1, shape, micro_batches), Outbox(rank - 1)
    if not is_last:
        gradients, down = Inbox(rank + 1, shape, micro_batches), Outbox(rank + 1)
    alive = {}
    total = torch.zeros((), dtype=torch.float64)

    def forward(i):
        part = slice(i * per, (i + 1) * per)
        x = inputs[part] if is_first else activations.take().requires_grad_()
        y = stage(x)
        if is_last:
            loss = loss_fn(y, targets[part])
            total.add_(loss.detach().double().cpu())
            alive[i] = x, loss
        else:
            down.put(y)
            alive[i] = x, y

    def backward(i):
        x, y = alive.pop(i)
        if is_last:
            (y / micro_batches).backward()
        else:
            gradient = gradients.take()
            if y.requires_grad:
                y.backward(gradient)
        if not is_first:
            up.put(x.grad)

    done = {"F": 0, "B": 0}
    work = {"F": forward, "B": backward}
    for letter in schedule(rank, size, micro_batches):
        work[letter](done[letter])
        done[letter] += 1
    for outbox in (up, down):
        if outbox is not None:
            outbox.close()
    return total.item() / micro_batches if is_last else None


def gpipe(rank, size, m):
    return "F" * m + "B" * m


def one_forward_one_backward(rank, size, m):
    ahead = min(size - 1 - rank, m)
    return "F" * ahead + "FB" * (m - ahead) + "B" * ahead


def run_gpipe(stage, inputs, targets, loss_fn, micro_batches):
    return train(gpipe, stage, inputs, targets, loss_fn, micro_batches)


def run_1f1b(stage, inputs, targets, loss_fn, micro_batches):
    return train(one_forward_one_backward, stage, inputs, targets, loss_fn, micro_batches)
