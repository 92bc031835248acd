"""One no_sync() around all but the last micro-batch, and a closure that does one of them."""

import contextlib

import torch


def train_step(model, optimizer, micro_batches, loss_fn):
    *head, tail = micro_batches

    def valid(targets):
        return targets.numel() if targets.dtype.is_floating_point else torch.count_nonzero(targets != -100).item()

    total = sum(valid(targets) for _, targets in micro_batches)

    def forward_backward(micro_batch):
        """Adds this micro-batch's part of the gradient; returns its part of the loss."""
        inputs, targets = micro_batch
        outputs = model(inputs)
        here = valid(targets)
        if here == 0:
            (outputs * 0).sum().backward()
            return 0.0
        part = loss_fn(outputs, targets) * here / total
        part.backward()
        return part.detach().double().item()

    optimizer.zero_grad(set_to_none=True)
    with model.no_sync() if head else contextlib.nullcontext():
        parts = [forward_backward(micro_batch) for micro_batch in head]
    parts.append(forward_backward(tail))
    optimizer.step()
    return float(sum(parts)) if total > 0 else float("nan")
