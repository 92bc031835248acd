"""A decoder's word goes to every prefiller, all prefillers find the same new owners on their own, lost requests are prefilled anew."""

import re

import torch
import torch.distributed as dist

OVER = -1


def gone(error):
    """The rank that died, from the message of a receive from any source."""
    found = re.search(r"rank (\d+) is gone", str(error))
    if found is None:
        raise error
    return int(found.group(1))


def finish(jobs):
    for job, _ in jobs:
        try:
            job.wait()
        except RuntimeError:
            pass  # to a dead rank


def prefill(requests, model, decoders):
    me, count = dist.get_rank(), dist.get_world_size() - len(decoders)
    ids = list(requests)
    mine = {name for place, name in enumerate(ids) if place % count == me}
    owner = {name: decoders[place % len(decoders)] for place, name in enumerate(ids)}
    living, decoded, jobs = list(decoders), set(), []

    def post(tensor, to):
        try:
            jobs.append((dist.isend(tensor, to), tensor))
        except RuntimeError:
            pass  # the receive from any source tells of the death

    def serve(name):
        to, state = owner[name], requests[name]
        post(torch.tensor([name, len(state)]), to)
        for layer in range(model.layers):
            state, cache = model.prefill_layer(layer, state)
            post(cache, to)

    for name in ids:
        if name in mine:
            serve(name)
    while any((name, owner[name]) not in decoded for name in ids):
        word = torch.zeros(1, dtype=torch.int64)
        try:
            source = dist.recv(word)
        except RuntimeError as error:
            dead = gone(error)
            living.remove(dead)
            lost = [name for name in ids if owner[name] == dead]
            for name in lost:
                had = list(owner.values())
                owner[name] = min(living, key=had.count)
            for name in lost:
                if name in mine:
                    serve(name)
            continue
        decoded.add((int(word), source))
    for rank in living:
        post(torch.tensor([OVER, 0]), rank)
    finish(jobs)


def decode(model, prefillers):
    tokens, jobs, open_ = {}, [], set(prefillers)
    while open_:
        head = torch.zeros(2, dtype=torch.int64)
        try:
            source = dist.recv(head)
        except RuntimeError as error:
            gone(error)
            continue
        name, length = head.tolist()
        if name == OVER:
            open_.discard(source)
            continue
        caches = [torch.empty(2, length, model.width) for _ in range(model.layers)]
        for job in [dist.irecv(cache, source) for cache in caches]:
            job.wait()
        tokens[name] = model.decode(name, caches)
        for rank in prefillers:
            word = torch.tensor([name])
            jobs.append((dist.isend(word, rank), word))
    finish(jobs)
    return tokens
