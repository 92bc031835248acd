"""Leaves out micro-batches without targets; gradients are set to zero after the step, for the next call."""

import contextlib

import torch

IGNORED = -100


class Accumulator:
    def __init__(self, model, loss_fn, total):
        self.model = model
        self.loss_fn = loss_fn
        self.total = total
        self.loss_times_count = 0.0

    def add(self, inputs, targets, count, synchronise):
        with contextlib.ExitStack() as stack:
            if not synchronise:
                stack.enter_context(self.model.no_sync())
            outputs = self.model(inputs)
            if count == 0:
                outputs.backward(torch.zeros_like(outputs))
                return
            loss = self.loss_fn(outputs, targets)
            loss.backward(gradient=torch.full_like(loss, count / self.total))
            self.loss_times_count += loss.item() * count

    def mean(self):
        return self.loss_times_count / self.total if self.total else float("nan")


def train_step(model, optimizer, micro_batches, loss_fn):
    counted = []
    for inputs, targets in micro_batches:
        keep = torch.ones_like(targets, dtype=torch.bool) if torch.is_floating_point(targets) else targets != IGNORED
        counted.append((inputs, targets, int(keep.sum())))
    # without targets a micro-batch changes nothing; but one backward pass there must be, the other ranks wait for it
    todo = [item for item in counted if item[2]] or counted[-1:]
    accumulator = Accumulator(model, loss_fn, sum(item[2] for item in todo))
    for left, item in zip(range(len(todo) - 1, -1, -1), todo):
        accumulator.add(*item, synchronise=left == 0)
    optimizer.step()
    optimizer.zero_grad()
    return accumulator.mean()
