"""Divides the averaged gradient by this rank's own number of targets.

check: uneven
kind: wrong_result
"""

import contextlib
import torch


def count(targets):
    return int((targets != -100).sum()) if not targets.is_floating_point() else targets.numel()


def train_step(model, optimizer, micro_batches, loss_fn):
    optimizer.zero_grad()
    counts = [count(t) for _, t in micro_batches]
    total = sum(counts)
    mean_loss = 0.0
    for i, (x, y) in enumerate(micro_batches):
        last = i == len(micro_batches) - 1
        with contextlib.nullcontext() if last else model.no_sync():
            loss = loss_fn(model(x), y) * counts[i]
            loss.backward()
        mean_loss += loss.item()
    for p in model.parameters():
        p.grad /= total
    optimizer.step()
    return mean_loss / total
