"""Right, but it warns, logs to stderr and prints a line a call."""

import logging
import sys
import warnings

import torch
import torch.distributed as dist

logging.basicConfig(level=logging.DEBUG)
log = logging.getLogger(__name__)


def ring_all_reduce(tensor):
    n, rank = dist.get_world_size(), dist.get_rank()
    warnings.warn(f"rank {rank} of {n} reduces {tuple(tensor.shape)} {tensor.dtype}", stacklevel=2)
    print(f"[{rank}] before:", tensor.flatten()[:4].tolist())
    flat = tensor.contiguous().view(-1)
    chunks = flat.tensor_split(n)
    for phase in ("reduce-scatter", "all-gather"):
        first = rank if phase == "reduce-scatter" else rank + 1
        for step in range(n - 1):
            log.debug("rank %d: %s, step %d", rank, phase, step)
            request = dist.isend(chunks[(first - step) % n], (rank + 1) % n)
            target = chunks[(first - step - 1) % n]
            incoming = torch.empty_like(target)
            dist.recv(incoming, (rank - 1) % n)
            request.wait()
            if phase == "reduce-scatter":
                target += incoming
            else:
                target.copy_(incoming)
    if not tensor.is_contiguous():
        tensor.copy_(flat.view(tensor.shape))
    print(f"[{rank}] after: ", tensor.flatten()[:4].tolist(), file=sys.stderr, flush=True)
