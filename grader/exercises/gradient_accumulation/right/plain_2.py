"""Each micro-batch's loss weighs as much as it has targets; all but the last under no_sync()."""

import contextlib

import torch


def targets_that_count(targets):
    """How many targets the mean loss is over: for classes those that are not -100."""
    return targets.numel() if targets.is_floating_point() else int((targets != -100).sum())


def train_step(model, optimizer, micro_batches, loss_fn):
    """One step on all micro-batches as if they were one batch; returns their mean loss."""
    mean_loss = loss_fn

    def loss_fn(outputs, targets):
        return mean_loss(outputs, targets) if targets_that_count(targets) else outputs.sum() * 0.0  # no NaN

    counts = [targets_that_count(targets) for _, targets in micro_batches]
    optimizer.zero_grad()
    mean = 0.0
    for number, ((inputs, targets), count) in enumerate(zip(micro_batches, counts)):
        last = number == len(micro_batches) - 1
        with contextlib.nullcontext() if last else model.no_sync():
            loss = loss_fn(model(inputs), targets) * (count / sum(counts))
            loss.backward()
        mean += loss.item()
    optimizer.step()
    return mean
