"""As Megatron-LM has it: neighbours exchange an activation and a gradient in one batch_isend_irecv."""

import torch
import torch.distributed as dist
from torch.distributed import P2POp, batch_isend_irecv


class Neighbours:
    """What goes to and comes from the stages before and after; nothing at the ends of the pipeline."""

    def __init__(self, shape):
        rank, size = dist.get_rank(), dist.get_world_size()
        self.shape = shape
        self.before = rank - 1 if rank > 0 else None
        self.after = rank + 1 if rank < size - 1 else None

    def exchange(self, peer, send=None, receive=False):
        if peer is None:
            return None
        operations, buffer = [], None
        if send is not None:
            operations.append(P2POp(dist.isend, send, peer))
        if receive:
            buffer = torch.empty(self.shape)
            operations.append(P2POp(dist.irecv, buffer, peer))
        for request in batch_isend_irecv(operations) if operations else []:
            request.wait()
        return buffer


class Step:
    """One training step on this stage."""

    def __init__(self, stage, inputs, targets, loss_fn, micro_batches):
        size = inputs.shape[0] // micro_batches
        self.stage, self.loss_fn, self.count = stage, loss_fn, micro_batches
        self.links = Neighbours(stage.activation_shape(size))
        self.inputs, self.targets = inputs.split(size), targets.split(size)
        self.losses = []

    def forward(self, index, x):
        x = self.inputs[index] if self.links.before is None else x.requires_grad_(True)
        y = self.stage(x)
        if self.links.after is None:
            y = self.loss_fn(y, self.targets[index]) / self.count
            self.losses.append(y.detach())
        return x, y

    def backward(self, saved, grad):
        x, y = saved
        torch.autograd.backward(y, grad)
        return x.grad

    def result(self):
        return torch.stack(self.losses).sum().item() if self.losses else None


def run_gpipe(stage, inputs, targets, loss_fn, micro_batches):
    step = Step(stage, inputs, targets, loss_fn, micro_batches)
    links, saved = step.links, []
    for index in range(micro_batches):
        saved.append(step.forward(index, links.exchange(links.before, receive=True)))
        links.exchange(links.after, send=saved[-1][1])
    for index in reversed(range(micro_batches)):
        grad = links.exchange(links.after, receive=True)
        links.exchange(links.before, send=step.backward(saved[index], grad))
    return step.result()


def run_1f1b(stage, inputs, targets, loss_fn, micro_batches):
    step = Step(stage, inputs, targets, loss_fn, micro_batches)
    links, saved = step.links, []
    warm_up = min(micro_batches, dist.get_world_size() - dist.get_rank() - 1)
    steady = micro_batches - warm_up
    for index in range(warm_up):
        saved.append(step.forward(index, links.exchange(links.before, receive=True)))
        links.exchange(links.after, send=saved[-1][1].detach())
    if steady:
        x = links.exchange(links.before, receive=True)
    for index in range(steady):
        saved.append(step.forward(warm_up + index, x))
        grad = links.exchange(links.after, send=saved[-1][1].detach(), receive=True)
        sent = step.backward(saved.pop(0), grad)
        x = links.exchange(links.before, send=sent, receive=index < steady - 1)
    for _ in range(warm_up):
        grad = links.exchange(links.after, receive=True)
        links.exchange(links.before, send=step.backward(saved.pop(0), grad))
    return step.result()
