"""A class for the stage between its neighbours; the schedule is calls of forward(), backward_input(), backward_weight()."""

from collections import deque

import torch
import torch.distributed as dist


class Pipe:
    """This rank's stage between its neighbours; each pass takes the oldest micro-batch that waits for it."""

    def __init__(self, stage, inputs, targets, loss_fn, micro_batches):
        self.rank, self.last = dist.get_rank(), dist.get_world_size() - 1
        self.stage, self.loss_fn, self.m = stage, loss_fn, micro_batches
        self.inputs = iter(inputs.chunk(micro_batches))
        self.targets = iter(targets.chunk(micro_batches))
        self.shape = stage.activation_shape(len(inputs) // micro_batches)
        self.going = deque()  # outputs that wait for backward_input
        self.weighing = deque()  # outputs that wait for backward_weight
        self.sending = {}  # for each neighbour, the request that is under way
        self.loss = 0.0

    def forward(self):
        x = next(self.inputs) if self.rank == 0 else self.receive(self.rank - 1)
        y = self.stage(x)
        if self.rank < self.last:
            self.send(y.detach(), self.rank + 1)
        self.going.append(y)

    def backward_input(self):
        y = self.going.popleft()
        if self.rank == self.last:
            grad = self.of_loss(y)
        else:
            grad = self.receive(self.rank + 1)
        before = self.stage.backward_input(y, grad)
        if self.rank > 0:
            self.send(before, self.rank - 1)
        self.weighing.append(y)

    def backward_weight(self):
        self.stage.backward_weight(self.weighing.popleft())

    def of_loss(self, y):
        """The gradient of the loss with respect to the last stage's output."""
        leaf = y.detach().requires_grad_()
        loss = self.loss_fn(leaf, next(self.targets)) / self.m
        loss.backward()
        self.loss += loss.item()
        return leaf.grad

    def receive(self, peer):
        buffer = torch.empty(self.shape)
        dist.recv(buffer, peer)
        return buffer

    def send(self, tensor, peer):
        if peer in self.sending:
            self.sending[peer].wait()
        self.sending[peer] = dist.isend(tensor, peer)

    def finish(self):
        for request in self.sending.values():
            request.wait()
        return self.loss if self.rank == self.last else None


def run_zb_h1(stage, inputs, targets, loss_fn, micro_batches):
    pipe = Pipe(stage, inputs, targets, loss_fn, micro_batches)
    warm_up = min(pipe.last - pipe.rank, micro_batches)
    for _ in range(warm_up):
        pipe.forward()
    for step in range(micro_batches):
        if step < micro_batches - warm_up:
            pipe.forward()
        pipe.backward_input()
        if len(pipe.weighing) > pipe.rank:
            pipe.backward_weight()
    while pipe.weighing:
        pipe.backward_weight()
    return pipe.finish()
