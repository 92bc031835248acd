"""Counts all targets first; a micro-batch without targets takes part with a loss of zero."""

import contextlib
import math

import torch


def _count(targets: torch.Tensor) -> int:
    """How many targets the loss is the mean of."""
    if targets.is_floating_point():
        return targets.numel()
    return int((targets != -100).sum())


def train_step(model, optimizer, micro_batches, loss_fn):
    counts = [_count(targets) for _, targets in micro_batches]
    total = sum(counts)
    mean = 0.0
    optimizer.zero_grad()
    for number, ((inputs, targets), count) in enumerate(zip(micro_batches, counts), start=1):
        last = number == len(micro_batches)
        with contextlib.nullcontext() if last else model.no_sync():
            outputs = model(inputs)
            if count:
                loss = loss_fn(outputs, targets) * (count / total)
                mean += loss.item()
            else:
                loss = outputs.sum() * 0.0  # the mean of nothing is NaN: take part, and add nothing
            loss.backward()
    optimizer.step()
    return mean if total else math.nan
