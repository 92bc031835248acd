"""Decoders ask: each has a question at every prefiller, and asks again as soon as that has answered with a request.

A prefiller gives its next request to a decoder that has asked and whose quota allows it, so which request goes where
depends on who is quick; quotas are dealt before, without a message, and dealt again where a decoder dies. A decoder
confirms to the prefiller alone. Prefillers tell each other when theirs are decoded, and how many deaths they had seen.
"""

import re
from collections import Counter, deque

import torch
import torch.distributed as dist

ASK, DONE, READY = 0, 1, 2  # what a prefiller is told: kind, and a request or a number of deaths
STOP = -1


def gone(error):
    found = re.search(r"rank (\d+) is gone", str(error))
    if found is None:
        raise error
    return int(found[1])


class Prefiller:
    def __init__(self, requests, model, decoders):
        self.rank, self.requests, self.model = dist.get_rank(), requests, model
        self.peers = [r for r in range(dist.get_world_size()) if r not in decoders]
        self.mine = deque(list(requests)[self.rank :: len(self.peers)])
        self.total = len(self.mine)
        self.living, self.deaths = list(decoders), 0
        self.quota = self.dealt()
        self.asked, self.given, self.confirmed = Counter(), {}, set()
        self.ready, self.works = {self.rank: -1}, []

    def dealt(self):
        """By prefiller, how many of its requests each decoder gets: all the decoders' sums differ by at most one."""
        quota, slot = {}, 0
        for place, peer in enumerate(self.peers):
            quota[peer] = Counter()
            for _ in range(len(list(self.requests)[place :: len(self.peers)])):
                quota[peer][self.living[slot % len(self.living)]] += 1
                slot += 1
        return quota

    def post(self, values, to):
        self.works.append(dist.isend(torch.tensor(values), to))

    def hear(self):
        """Take one message, or one death."""
        message = torch.empty(2, dtype=torch.int64)
        try:
            source = dist.recv(message)
        except RuntimeError as error:
            self.bury(gone(error))
            return
        kind, value = message.tolist()
        if kind == ASK and source in self.living:
            self.asked[source] += 1
        elif kind == DONE and self.given.get(value) == source:
            self.confirmed.add(value)
        elif kind == READY:
            self.ready[source] = value

    def bury(self, dead):
        self.living.remove(dead)
        self.deaths += 1
        sums = Counter({one: sum(quota[one] for quota in self.quota.values()) for one in self.living})
        for peer in self.peers:
            for _ in range(self.quota[peer].pop(dead, 0)):
                heir = min(self.living, key=lambda one: sums[one])
                sums[heir] += 1
                self.quota[peer][heir] += 1
        for request, decoder in list(self.given.items()):
            if decoder == dead:
                del self.given[request]
                self.confirmed.discard(request)
                self.mine.append(request)

    def chosen(self):
        """A decoder that has asked and may have one more, or None."""
        has = Counter(self.given.values())
        free = [one for one in self.living if self.asked[one] and has[one] < self.quota[self.rank][one]]
        return min(free, key=lambda one: has[one], default=None)

    def run(self):
        while True:
            decoder = self.chosen()
            if self.mine and decoder is not None:
                self.serve(self.mine.popleft(), decoder)
                continue
            if len(self.confirmed) == self.total and self.ready[self.rank] < self.deaths:
                self.ready[self.rank] = self.deaths
                for peer in self.peers:
                    if peer != self.rank:
                        self.post([READY, self.deaths], peer)
            if len(self.confirmed) == self.total and all(self.ready.get(p) == self.deaths for p in self.peers):
                break
            self.hear()
        self.finish()

    def serve(self, request, decoder):
        self.asked[decoder] -= 1
        self.given[request] = decoder
        prompt = self.requests[request]
        self.post([request, len(prompt)], decoder)
        state = prompt
        for i in range(self.model.layers):
            state, cache = self.model.prefill_layer(i, state)
            self.works.append(dist.isend(cache, decoder))

    def finish(self):
        for decoder in self.living:
            self.post([STOP, 0], decoder)
        left = sum(self.asked[one] == 0 for one in self.living)
        while left:  # every decoder has one question left that nobody has heard
            try:
                dist.recv(torch.empty(2, dtype=torch.int64))
                left -= 1
            except RuntimeError as error:
                gone(error)
        for work in self.works:
            try:
                work.wait()
            except RuntimeError as error:
                gone(error)


def prefill(requests, model, decoders):
    Prefiller(requests, model, decoders).run()


def decode(model, prefillers):
    tokens, header, open_ones = {}, torch.empty(2, dtype=torch.int64), set(prefillers)
    works = [dist.isend(torch.tensor([ASK, 0]), one) for one in prefillers]
    while open_ones:
        try:
            source = dist.recv(header)
        except RuntimeError as error:
            gone(error)
            continue
        request, length = header.tolist()
        if request == STOP:
            open_ones.remove(source)
            continue
        works.append(dist.isend(torch.tensor([ASK, 0]), source))
        caches = [torch.empty(2, length, model.width) for _ in range(model.layers)]
        for cache in caches:
            dist.recv(cache, source)
        tokens[request] = model.decode(request, caches)
        works.append(dist.isend(torch.tensor([DONE, request]), source))
    for work in works:
        work.wait()
    return tokens
