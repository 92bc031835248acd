"""Mixes one row in float64; the average is gathered everywhere, and rank 0 alone computes the centre."""

from itertools import chain

import torch
import torch.distributed as dist
from torch.nn.utils import parameters_to_vector as row_of
from torch.nn.utils import vector_to_parameters


def mix(parameters, neighbours, weights):
    if not neighbours:
        return
    row = torch.cat([p.detach().flatten() for p in parameters]) if parameters else torch.empty(0)
    inbox = {n: torch.zeros_like(row) for n in neighbours}
    ops = chain(
        (dist.P2POp(dist.isend, row, n) for n in sorted(neighbours)),
        (dist.P2POp(dist.irecv, inbox[n], n) for n in sorted(neighbours)),
    )
    for request in dist.batch_isend_irecv(list(ops)):
        request.wait()
    wide = row.double()
    new = wide.clone()
    for n, w in zip(neighbours, weights):
        new += w * (inbox[n].double() - wide)
    start = 0
    with torch.no_grad():
        for p in parameters:
            p.copy_(new[start : start + p.numel()].reshape(p.shape))
            start += p.numel()


@torch.no_grad()
def _meet(model):
    mine = row_of(model.parameters())
    rows = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(rows, mine)
    vector_to_parameters(torch.stack(rows).double().mean(0).to(mine.dtype), model.parameters())


def local_sgd(model, steps, period, elastic=None):
    n, rank = dist.get_world_size(), dist.get_rank()
    with torch.no_grad():
        centre = row_of(model.parameters()).clone()
        if elastic is not None:
            dist.broadcast(centre, 0)
            vector_to_parameters(centre.clone(), model.parameters())
    done = 0
    while done < steps:
        block = min(period, steps - done)
        for step in range(done, done + block):
            model.local_step(step)
        done += block
        if block < period:
            break
        if elastic is None:
            _meet(model)
            continue
        with torch.no_grad():
            mine = row_of(model.parameters()).clone()
            rows = [torch.empty_like(mine) for _ in range(n)] if rank == 0 else None
            dist.gather(mine, rows, dst=0)
            old = centre.clone()
            if rank == 0:
                centre = old + elastic * (torch.stack(rows) - old).sum(0)
            vector_to_parameters(mine - elastic * (mine - old), model.parameters())
            dist.broadcast(centre, 0)
