"""Prefiller 0 alone hears what is decoded, and tells all others when all is over.

Every prefiller works out the owners by itself, in the same way, also after a death.
"""

import contextlib
import re

import torch
import torch.distributed as dist

NEW, DONE, DIED, OVER = range(4)


def note(*numbers):
    return torch.tensor([*numbers, *[0] * (4 - len(numbers))])


class Mail:
    """Sends that nobody waits for until the end, and receives that know of the death."""

    def __init__(self):
        self.sent, self.gone = [], None

    def send(self, tensor, rank):
        if rank != self.gone:
            with contextlib.suppress(RuntimeError):
                self.sent.append((dist.isend(tensor, rank), tensor))

    def receive(self):
        """A note and its sender. The first to hear of a death gets (None, the rank)."""
        into = note()
        try:
            return into, dist.recv(into)
        except RuntimeError as error:
            found = re.search(r"rank (\d+) is gone", str(error))
            if not found:
                raise
            self.gone = int(found[1])
            return None, self.gone

    def close(self):
        for request, _ in self.sent:
            try:
                request.wait()
            except RuntimeError as error:
                if "is gone" not in str(error):
                    raise


class Plan:
    """Who has which request: computed by each prefiller in the same way."""

    def __init__(self, requests, prefillers, decoders):
        self.ids = list(requests)
        self.prefiller = {r: prefillers[n % len(prefillers)] for n, r in enumerate(self.ids)}
        self.decoder = {r: decoders[n % len(decoders)] for n, r in enumerate(self.ids)}
        self.living = list(decoders)

    def died(self, rank):
        """The requests that move, each to the living decoder with the fewest."""
        self.living.remove(rank)
        moved = [r for r in self.ids if self.decoder[r] == rank]
        for r in moved:
            load = {d: sum(x == d for x in self.decoder.values()) for d in self.living}
            self.decoder[r] = min(self.living, key=lambda d: (load[d], d))
        return moved


def prefill(requests, model, decoders):
    me = dist.get_rank()
    prefillers = [r for r in range(dist.get_world_size()) if r not in decoders]
    plan, mail = Plan(requests, prefillers, decoders), Mail()

    def run(r):
        owner = plan.decoder[r]
        mail.send(note(NEW, r, len(requests[r])), owner)
        state = requests[r]
        for layer in range(model.layers):
            state, cache = model.prefill_layer(layer, state)
            mail.send(cache, owner)

    def death(rank):
        for r in plan.died(rank):
            if plan.prefiller[r] == me:
                run(r)

    for r in plan.ids:
        if plan.prefiller[r] == me:
            run(r)
    done = set()
    while me == prefillers[0]:
        if all((r, d) in done for r, d in plan.decoder.items()):
            break
        got, source = mail.receive()
        if got is None:
            death(source)
        else:
            done.add((int(got[1]), source))
    if me == prefillers[0]:
        for rank in prefillers[1:] + plan.living:
            mail.send(note(OVER), rank)
    else:
        while True:
            got, source = mail.receive()
            if got is None:
                death(source)
            else:
                break
    mail.close()


def decode(model, prefillers):
    mail, tokens = Mail(), {}
    while True:
        got, source = mail.receive()
        if got is None:
            continue
        kind, r, length, _ = got.tolist()
        if kind == OVER:
            break
        caches = [torch.empty(2, length, model.width) for _ in range(model.layers)]
        for request in [dist.irecv(cache, source) for cache in caches]:
            request.wait()
        tokens[r] = model.decode(r, caches)
        mail.send(note(DONE, r), prefillers[0])
    mail.close()
    return tokens
