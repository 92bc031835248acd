"""All forward passes first, and one backward pass of the whole loss."""

import torch


def train_step(model, optimizer, micro_batches, loss_fn):
    optimizer.zero_grad()
    counts = [int((t != -100).sum()) if t.dtype == torch.long else t.numel() for _, t in micro_batches]
    losses = []
    with model.no_sync():
        for inputs, targets in micro_batches[:-1]:
            losses.append(loss_fn(model(inputs), targets))
    inputs, targets = micro_batches[-1]
    losses.append(loss_fn(model(inputs), targets))
    loss = sum(count * each for count, each in zip(counts, losses) if count) / sum(counts)
    loss.backward()
    optimizer.step()
    return loss.item()
