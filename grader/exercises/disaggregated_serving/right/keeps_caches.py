"""Prefillers keep all caches until everything is decoded, and send those of a dead decoder's requests once more.

Each prefiller announces to each decoder what will come, and the decoder posts all its receives beforehand. Layers have
tags of their own. A decoder confirms to all prefillers when it has decoded what was announced: once, and again after a death.
"""

import re
from collections import Counter
from itertools import count

import torch
import torch.distributed as dist

TABLE, LAYERS, WORD = 0, 1000, 1  # tags; those of layers are counted on
AGAIN, OVER = 1, 0


def who_is_gone(error):
    found = re.search(r"rank (\d+) is gone$", str(error))
    if not found:
        raise error
    return int(found[1])


def spread(items, ranks, load):
    """Give each item to a rank with the least load. Returns item -> rank."""
    where = {}
    for item in items:
        where[item] = min(ranks, key=lambda rank: load[rank])
        load[where[item]] += 1
    return where


def prefill(requests, model, decoders):
    me, n = dist.get_rank(), min(decoders)
    mine = [request for place, request in enumerate(requests) if place % n == me]
    load, alive = dict.fromkeys(decoders, 0), list(decoders)
    where = spread(requests, alive, load)
    tags = {decoder: count(LAYERS) for decoder in decoders}
    caches, works = {}, []

    def announce(batch):
        for decoder in alive:
            ours = [request for request in batch if where[request] == decoder and request in mine]
            works.append(dist.isend(torch.tensor([len(ours)]), decoder, tag=TABLE))
            if ours:
                table = torch.tensor([[request, len(requests[request])] for request in ours])
                works.append(dist.isend(table, decoder, tag=TABLE))

    def send(request, cache):
        works.append(dist.isend(cache, where[request], tag=next(tags[where[request]])))

    announce(requests)
    for request in mine:
        state, caches[request] = requests[request], []
        for i in range(model.layers):
            state, cache = model.prefill_layer(i, state)
            caches[request].append(cache)
            send(request, cache)
    heard, rounds, word = Counter(), 1, torch.empty(1, dtype=torch.int64)
    while any(heard[decoder] < rounds for decoder in alive):  # each confirms once a round, the quick ones early
        try:
            heard[dist.recv(word, tag=WORD)] += 1
        except RuntimeError as error:
            dead = who_is_gone(error)
            alive.remove(dead)
            rounds += 1
            lost = [request for request in requests if where[request] == dead]
            where.update(spread(lost, alive, load))
            for decoder in alive:
                works.append(dist.isend(torch.tensor([AGAIN]), decoder, tag=WORD))
            announce(lost)
            for request in lost:
                for cache in caches.get(request, ()):
                    send(request, cache)
    for decoder in alive:
        works.append(dist.isend(torch.tensor([OVER]), decoder, tag=WORD))
    for work in works:
        try:
            work.wait()
        except RuntimeError as error:
            who_is_gone(error)


def decode(model, prefillers):
    tokens, words = {}, []
    tags = {prefiller: count(LAYERS) for prefiller in prefillers}
    word = torch.empty(1, dtype=torch.int64)
    while True:
        for request, receives in announced(model, prefillers, tags):
            caches = []
            for work, cache in receives:
                work.wait()
                caches.append(cache)
            tokens[request] = model.decode(request, caches)
        words += [dist.isend(torch.tensor([len(tokens)]), prefiller, tag=WORD) for prefiller in prefillers]
        answers = []
        for prefiller in prefillers:
            dist.recv(word, prefiller, tag=WORD)
            answers.append(int(word))
        if OVER in answers:
            break
    for work in words:
        work.wait()
    return tokens


def announced(model, prefillers, tags):
    """What each prefiller is going to send, with its receives posted."""
    found = []
    for prefiller in prefillers:
        many = torch.empty(1, dtype=torch.int64)
        dist.recv(many, prefiller, tag=TABLE)
        table = torch.empty(int(many), 2, dtype=torch.int64)
        if len(table):
            dist.recv(table, prefiller, tag=TABLE)
        for request, length in table.tolist():
            caches = [torch.empty(2, length, model.width) for _ in range(model.layers)]
            found.append((request, [(dist.irecv(c, prefiller, tag=next(tags[prefiller])), c) for c in caches]))
    return found
