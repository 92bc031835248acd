from collections import deque

import torch
import torch.distributed as dist


class Pipe:
    """This rank's stage between its neighbours: takes micro-batches forward and backward, each time the oldest."""

    def __init__(self, stage, inputs, targets, loss_fn, micro_batches):
        self.rank, self.last = dist.get_rank(), dist.get_world_size() - 1
        self.stage, self.loss_fn, self.m = stage, loss_fn, micro_batches
        self.inputs = iter(inputs.chunk(micro_batches))
        self.targets = iter(targets.chunk(micro_batches))
        self.shape = stage.activation_shape(len(inputs) // micro_batches)
        self.going = deque()  # what went forward and has yet to go backward: (input, output or loss)
        self.sending = {}  # for each neighbour, the request that is under way
        self.loss = 0.0

    def forward(self):
        """The next micro-batch: from the stage before to the stage after, or to the loss."""
        x = next(self.inputs) if self.rank == 0 else self.receive(self.rank - 1).requires_grad_()
        y = self.stage(x)
        if self.rank == self.last:
            y = self.loss_fn(y, next(self.targets)) / self.m
            self.loss += y.item()
        else:
            self.send(y.detach(), self.rank + 1)
        self.going.append((x, y))

    def backward(self):
        """The oldest micro-batch that went forward: its gradient goes to the stage before."""
        x, y = self.going.popleft()
        y.backward(None if self.rank == self.last else self.receive(self.rank + 1))
        if self.rank > 0:
            self.send(x.grad, self.rank - 1)

    def receive(self, peer):
        buffer = torch.empty(self.shape)
        dist.recv(buffer, peer)
        return buffer

    def send(self, tensor, peer):
        """Begin to send. One message a neighbour is under way: a request that is done with lets go of its tensor."""
        if peer in self.sending:
            self.sending[peer].wait()
        self.sending[peer] = dist.isend(tensor, peer)

    def finish(self):
        for request in self.sending.values():
            request.wait()
        return self.loss if self.rank == self.last else None


def run_gpipe(stage, inputs, targets, loss_fn, micro_batches):
    pipe = Pipe(stage, inputs, targets, loss_fn, micro_batches)
    for _ in range(micro_batches):
        pipe.forward()
    for _ in range(micro_batches):
        pipe.backward()
    return pipe.finish()


def run_1f1b(stage, inputs, targets, loss_fn, micro_batches):
    pipe = Pipe(stage, inputs, targets, loss_fn, micro_batches)
    warm_up = min(pipe.last - pipe.rank, micro_batches)
    for _ in range(warm_up):
        pipe.forward()
    for _ in range(micro_batches - warm_up):
        pipe.forward()
        pipe.backward()
    for _ in range(warm_up):
        pipe.backward()
    return pipe.finish()
