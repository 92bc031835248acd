"""Right: trainer 0 has one object, and listens for one result or death at a time. Ids and versions travel as the bits of an
int32 in a float32 row."""

import re
from heapq import heappop, heappush

import torch
import torch.distributed as dist


class Hub:
    def __init__(self, params, steps, batch, staleness, generators):
        self.params, self.version, self.batch, self.staleness = params, 0, batch, staleness
        self.total, self.next = steps * batch, 0
        self.again, self.pool = [], []
        self.held = {g: [] for g in generators}  # ids that a generator has, in order
        self.has = dict.fromkeys(generators, 0)  # the version that a generator has
        self.sent = []

    def limit(self):
        return self.total if self.staleness else (self.version + 1) * self.batch

    def prompt(self):
        if self.again:
            return heappop(self.again)
        if self.next < min(self.limit(), self.total):
            self.next += 1
            return self.next - 1
        return None

    def post(self, tensor, to):
        try:
            self.sent.append((dist.isend(tensor, to), tensor))
        except RuntimeError:
            pass  # the receive tells of the death

    def feed(self):
        """Give prompts to generators until each has two, those with fewer first."""
        for depth in (1, 2):
            for g, ids in self.held.items():
                while len(ids) < depth and (prompt := self.prompt()) is not None:
                    newer = self.has[g] < self.version
                    self.post(torch.tensor([prompt, self.version, int(newer)]), g)
                    if newer:
                        self.has[g] = self.version
                        self.post(self.params.clone(), g)
                    ids.append(prompt)

    def listen(self):
        row = torch.empty(12)
        try:
            source = dist.recv(row)
        except RuntimeError as error:
            found = re.search(r"rank (\d+) is gone", str(error))
            if found is None:
                raise
            for prompt in self.held.pop(int(found[1])):
                heappush(self.again, prompt)
            return
        head = row[:2].view(torch.int32)
        prompt, version = head.tolist()
        self.held[source].remove(prompt)
        if self.version - version <= self.staleness:
            self.pool.append((prompt, version, row[3:11].clone(), row[2].item()))
        else:
            heappush(self.again, prompt)

    def expire(self):
        for prompt, version, *_ in self.pool:
            if self.version - version > self.staleness:
                heappush(self.again, prompt)
        self.pool = [s for s in self.pool if self.version - s[1] <= self.staleness]

    def close(self):
        for g in self.held:
            self.post(torch.tensor([-1, 0, 0]), g)
        for request, _ in self.sent:
            try:
                request.wait()
            except RuntimeError as error:
                if "gone" not in str(error):
                    raise


def pack(samples):
    rows = torch.empty(len(samples), 12)
    for row, (prompt, version, sample, logprob) in zip(rows, samples, strict=True):
        row[:2].view(torch.int32).copy_(torch.tensor([prompt, version], dtype=torch.int32))
        row[2], row[3:11] = logprob, sample
    return rows


def unpack(rows):
    return [(*row[:2].view(torch.int32).tolist(), row[3:11].clone(), row[2].item()) for row in rows]


def trainer(params, optimizer_step, steps, batch, max_staleness, generators):
    me = dist.get_rank()
    trainers = [r for r in range(dist.get_world_size()) if r not in generators]
    share = batch // len(trainers)

    def mean(mine):
        """Trainer 0 adds up in order of ranks and sends the mean to the others."""
        if me:
            dist.send(mine, 0)
            dist.recv(mine, 0)
            return mine
        total = mine.clone()
        for other in trainers[1:]:
            theirs = torch.empty_like(mine)
            dist.recv(theirs, other)
            total += theirs
        total /= len(trainers)
        for other in trainers[1:]:
            dist.send(total, other)
        return total

    if me:
        for _ in range(steps):
            rows = torch.empty(share, 12)
            dist.recv(rows, 0)
            params = mean(optimizer_step(params, unpack(rows)).clone())
        return params.clone()
    hub = Hub(params, steps, batch, max_staleness, generators)
    hub.feed()
    for _ in range(steps):
        while len(hub.pool) < batch:
            hub.listen()
            hub.feed()
        used, hub.pool = hub.pool[:batch], hub.pool[batch:]
        for number, other in enumerate(trainers[1:], 1):
            dist.send(pack(used[number * share : (number + 1) * share]), other)
        hub.params = mean(optimizer_step(hub.params, used[:share]).clone())
        hub.version += 1
        hub.expire()
        hub.feed()
    hub.close()
    return hub.params.clone()


def generator(params, generate, trainers):
    boss, have, sent = trainers[0], params, []
    version = 0

    def order():
        """The next prompt and its params, received before they are needed."""
        nonlocal have, version
        head = torch.empty(3, dtype=torch.int64)
        dist.recv(head, boss)
        prompt, number, newer = head.tolist()
        if newer:
            have = torch.empty_like(params)
            dist.recv(have, boss)
            version = number
        return prompt

    while (prompt := order()) >= 0:
        sample, logprob = generate(have, prompt)
        rows = pack([(prompt, version, sample, logprob)])[0]
        sent.append((dist.isend(rows, boss), rows))
    for request, _ in sent:
        request.wait()
