"""DDP's own switch in place of no_sync(), gradients set to None by hand, counts summed up first."""

import torch


def train_step(model, optimizer, micro_batches, loss_fn):
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            parameter.grad = None
    whole = 0
    for _, targets in micro_batches:
        whole += targets.shape[0] if targets.dtype.is_floating_point else int(torch.count_nonzero(targets != -100))
    mean = 0.0
    for i, (inputs, targets) in enumerate(micro_batches):
        model.require_backward_grad_sync = i + 1 == len(micro_batches)
        part = targets.shape[0] if targets.dtype.is_floating_point else int(torch.count_nonzero(targets != -100))
        outputs = model(inputs)
        loss = part * loss_fn(outputs, targets) / whole if part else 0 * outputs.sum()
        loss.backward()
        mean += float(loss)
    optimizer.step()
    return mean
