"""Rank 0 knows what is decoded, and orders what is to be prefilled again; the other prefillers do as it says."""

import re

import torch
import torch.distributed as dist

OVER = [-1, -1]


class Prefiller:
    def __init__(self, requests, model):
        self.requests, self.model, self.pending = requests, model, []

    def post(self, values, to):
        self.pending.append(dist.isend(torch.tensor(values), to))

    def work(self, request, decoder):
        prompt = self.requests[request]
        self.post([request, len(prompt)], decoder)
        state = prompt
        for layer in range(self.model.layers):
            state, cache = self.model.prefill_layer(layer, state)
            self.pending.append(dist.isend(cache, decoder))

    def close(self):
        for work in self.pending:
            try:
                work.wait()
            except RuntimeError as error:
                if "is gone" not in str(error):
                    raise


def prefill(requests, model, decoders):
    rank, many = dist.get_rank(), dist.get_world_size() - len(decoders)
    me = Prefiller(requests, model)
    todo = [(key, i % many, decoders[i % len(decoders)]) for i, key in enumerate(requests)]
    for key, prefiller, decoder in todo:
        if prefiller == rank:
            me.work(key, decoder)
    if rank == 0:
        coordinate(me, todo, many, list(decoders))
    else:
        order = torch.empty(2, dtype=torch.int64)
        while True:
            dist.recv(order, 0)
            if order.tolist() == OVER:
                break
            me.work(*order.tolist())
    me.close()


def coordinate(me, todo, many, alive):
    at = {key: (prefiller, decoder) for key, prefiller, decoder in todo}
    open_keys = set(at)
    note = torch.empty(1, dtype=torch.int64)
    while open_keys:
        try:
            dist.recv(note)
            open_keys.discard(int(note))
        except RuntimeError as error:
            dead = int(re.search(r"rank (\d+) is gone", str(error)).group(1))
            alive.remove(dead)
            load = {one: sum(decoder == one for _, decoder in at.values()) for one in alive}
            for key, (prefiller, decoder) in list(at.items()):
                if decoder != dead:
                    continue
                new = min(alive, key=load.get)
                load[new] += 1
                at[key] = prefiller, new
                open_keys.add(key)
                if prefiller == 0:
                    me.work(key, new)
                else:
                    me.post([key, new], prefiller)
    for rank in [*range(1, many), *alive]:
        me.post(OVER, rank)


def decode(model, prefillers):
    done, notes, head = {}, [], torch.empty(2, dtype=torch.int64)
    while True:
        try:
            source = dist.recv(head)
        except RuntimeError as error:
            if "is gone" not in str(error):
                raise
            continue
        if head.tolist() == OVER:
            break
        key, length = head.tolist()
        caches = []
        for _ in range(model.layers):
            caches.append(torch.empty(2, length, model.width))
            dist.recv(caches[-1], source)
        done[key] = model.decode(key, caches)
        notes.append(dist.isend(torch.tensor([key]), 0))
    for note in notes:
        note.wait()
    return done
