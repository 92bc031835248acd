"""In rounds: rank 0 tells everybody a table of who does what, all do it, and what a dead rank had is the next table.

Decoders receive in the table's order, from the prefillers that it names. A table without rows is the end.
"""

import re

import torch
import torch.distributed as dist


def prefill(requests, model, decoders):
    rank = dist.get_rank()
    prefillers = [r for r in range(dist.get_world_size()) if r not in decoders]
    living, load = list(decoders), dict.fromkeys(decoders, 0)
    pending = list(requests)
    while True:
        if rank == 0:
            table = make_table(requests, pending, prefillers, load)
            tell(table, prefillers[1:] + living)
        else:
            table = hear()
        if len(table) == 0:
            return
        works = []
        for request, length, prefiller, decoder in table.tolist():
            if prefiller == rank:
                state = requests[request]
                for i in range(model.layers):
                    state, cache = model.prefill_layer(i, state)
                    works.append(dist.isend(cache, decoder))
        dead = reports(living) if rank == 0 else None
        for work in works:
            try:
                work.wait()
            except RuntimeError as error:
                gone(error)
        if rank == 0:
            pending = []
            if dead is not None:
                living.remove(dead)
                load.pop(dead)
                pending = [row[0] for row in table.tolist() if row[3] == dead]  # at most one dies: this is round 1


def make_table(requests, pending, prefillers, load):
    rows = []
    for place, request in enumerate(pending):
        decoder = min(load, key=load.get)
        load[decoder] += 1
        rows.append([request, len(requests[request]), prefillers[place % len(prefillers)], decoder])
    return torch.tensor(rows, dtype=torch.int64).reshape(-1, 4)


def tell(table, ranks):
    works = []
    for rank in ranks:
        works.append(dist.isend(torch.tensor([len(table)]), rank))
        if len(table):
            works.append(dist.isend(table, rank))
    for work in works:
        work.wait()


def hear():
    rows = torch.empty(1, dtype=torch.int64)
    dist.recv(rows, 0)
    table = torch.empty(int(rows), 4, dtype=torch.int64)
    if len(table):
        dist.recv(table, 0)
    return table


def reports(living):
    """Until each decoder has reported or died. Returns the one that died."""
    heard, dead, report = set(), None, torch.empty(1, dtype=torch.int64)
    while heard | {dead} < set(living) | {dead}:
        try:
            heard.add(dist.recv(report))
        except RuntimeError as error:
            dead = gone(error)
    return dead


def gone(error):
    found = re.search(r"rank (\d+) is gone", str(error))
    if not found:
        raise error
    return int(found[1])


def decode(model, prefillers):
    rank, tokens = dist.get_rank(), {}
    while len(table := hear()):
        for request, length, prefiller, decoder in table.tolist():
            if decoder == rank:
                caches = [torch.empty(2, length, model.width) for _ in range(model.layers)]
                for work in [dist.irecv(cache, prefiller) for cache in caches]:
                    work.wait()
                tokens[request] = model.decode(request, caches)
        dist.send(torch.tensor([rank]), 0)
    return tokens
