"""A running mean: before each further micro-batch it shrinks what has accumulated on this rank."""

from contextlib import nullcontext

import torch


def train_step(model, optimizer, micro_batches, loss_fn):
    optimizer.zero_grad()
    seen, mean = 0, float("nan")
    pending = list(micro_batches)
    while pending:
        inputs, targets = pending.pop(0)
        count = targets.numel() if targets.is_floating_point() else int(targets.ne(-100).sum())
        synchronise = not pending
        with nullcontext() if synchronise else model.no_sync():
            outputs = model(inputs)
            if count == 0:
                loss = outputs.sum() * 0
            else:
                share = count / (seen + count)
                loss = loss_fn(outputs, targets) * share
                if seen:
                    with torch.no_grad():
                        for parameter in model.parameters():
                            if parameter.grad is not None:
                                parameter.grad.mul_(1 - share)  # still this rank's own: nothing has been sent
                    mean = mean * (1 - share) + loss.item()
                else:
                    mean = loss.item()
                seen += count
            loss.backward()
    optimizer.step()
    return mean
