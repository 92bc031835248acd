"""The lowest decoder that lives collects what is decoded and says when all is over; if it dies, the next one does.

Every layer has a header of its own, so layers of several requests may come to a decoder in any mixture. All ranks know
one table of owners, and come to the same new one when a decoder dies.
"""

import re

import torch
import torch.distributed as dist

LAYER, REPORT, OVER = range(3)


class Table:
    """Which decoder a request belongs to. The same on all ranks."""

    def __init__(self, requests, decoders):
        self.living, self.owner = sorted(decoders), {}
        self.give(requests)

    def give(self, requests):
        owners = list(self.owner.values())
        load = {rank: owners.count(rank) for rank in self.living}
        for request in requests:
            self.owner[request] = min(self.living, key=lambda rank: (load[rank], rank))
            load[self.owner[request]] += 1

    def bury(self, rank):
        self.living.remove(rank)
        lost = [request for request, owner in self.owner.items() if owner == rank]
        for request in lost:
            del self.owner[request]
        self.give(lost)
        return lost


class Post:
    """Messages of four words, from anybody; None in place of one is a death."""

    def __init__(self):
        self.sent = []

    def send(self, tensor, to):
        self.sent.append(dist.isend(tensor, to))

    def words(self, to, *words):
        self.send(torch.tensor(words), to)

    def receive(self):
        message = torch.empty(4, dtype=torch.int64)
        try:
            source = dist.recv(message)
        except RuntimeError as error:
            return None, int(self.dead(error))
        return message.tolist(), source

    @staticmethod
    def dead(error):
        found = re.search(r"rank (\d+) is gone", str(error))
        if found is None:
            raise error
        return found[1]

    def close(self):
        for work in self.sent:
            try:
                work.wait()
            except RuntimeError as error:
                self.dead(error)


def prefill(requests, model, decoders):
    me, n = dist.get_rank(), dist.get_world_size() - len(decoders)
    table, post = Table(requests, decoders), Post()
    mine = list(requests)[me::n]

    def work(todo):
        for request in todo:
            if request in mine:
                state = requests[request]
                for i in range(model.layers):
                    state, cache = model.prefill_layer(i, state)
                    post.words(table.owner[request], LAYER, request, i, cache.shape[1])
                    post.send(cache, table.owner[request])

    if me == 0:
        for decoder in decoders:
            post.send(torch.tensor([len(requests)]), decoder)
            post.send(torch.tensor(list(requests)), decoder)
    work(mine)
    while True:
        message, source = post.receive()
        if message is None:
            work(table.bury(source))
        else:
            assert message[0] == OVER
            break
    post.close()


def decode(model, prefillers):
    me, post = dist.get_rank(), Post()
    many = torch.empty(1, dtype=torch.int64)
    dist.recv(many, 0)
    ids = torch.empty(int(many), dtype=torch.int64)
    dist.recv(ids, 0)
    table = Table(ids.tolist(), range(len(prefillers), dist.get_world_size()))
    parts, tokens, reported = {}, {}, {}

    def report(request):
        leader = table.living[0]
        if leader == me:
            reported[request] = me
        else:
            post.words(leader, REPORT, request, 0, 0)

    while True:
        if table.living[0] == me and reported == table.owner:
            for rank in [*prefillers, *table.living[1:]]:
                post.words(rank, OVER, 0, 0, 0)
            break
        message, source = post.receive()
        if message is None:
            led = table.living[0] == source
            table.bury(source)
            for request in [request for request, rank in reported.items() if rank == source]:
                del reported[request]
            if led:
                for request in tokens:
                    report(request)
            continue
        kind, request, layer, length = message
        if kind == OVER:
            break
        if kind == REPORT:
            reported[request] = source
            continue
        cache = torch.empty(2, length, model.width)
        dist.recv(cache, source)
        parts.setdefault(request, {})[layer] = cache
        if len(parts[request]) == model.layers:
            there = parts.pop(request)
            tokens[request] = model.decode(request, [there[i] for i in range(model.layers)])
            report(request)
    post.close()
    return tokens
