"""no_sync() entered once for all but the last, and sums divided by hand."""

from contextlib import ExitStack

import torch


def part(model, loss_fn, x, y, share):
    out = model(x)
    return share * loss_fn(out, y) if share else 0 * out.sum()  # a mean over no targets is NaN


def train_step(model, optimizer, micro_batches, loss_fn):
    sizes = torch.tensor([float((t != -100).sum() if t.dtype == torch.int64 else len(t)) for _, t in micro_batches])
    shares = (sizes / sizes.sum().double()).tolist()
    *first, last = list(zip(micro_batches, shares))
    total = []
    with ExitStack() as stack:
        stack.enter_context(model.no_sync())
        for (x, y), share in first:
            total.append(part(model, loss_fn, x, y, share))
            total[-1].backward()
    (x, y), share = last
    total.append(part(model, loss_fn, x, y, share))
    total[-1].backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return float(sum(each.detach() for each in total))
