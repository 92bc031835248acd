"""Right: the plainest one. A generator asks when it is free, with its last result; blocking calls all along."""

import torch
import torch.distributed as dist


def trainer(params, optimizer_step, steps, batch, max_staleness, generators):
    me, trainers = dist.get_rank(), min(generators)
    share = batch // trainers
    state = Collector(params, steps, batch, max_staleness, generators) if me == 0 else None
    for step in range(steps):
        block = torch.empty(batch, 11, dtype=torch.float64)
        if me == 0:
            state.fill(block)
            for peer in range(1, trainers):
                dist.send(block, peer)
        else:
            dist.recv(block, 0)
        mine = block[me::trainers]  # any split will do
        assert len(mine) == share
        new = optimizer_step(params, [(int(r[0]), int(r[1]), r[2:10].float(), r[10].item()) for r in reversed(mine)])
        if trainers > 1:
            parts = [torch.empty_like(new) for _ in range(trainers)]
            for source in range(trainers):
                if source == me:
                    parts[me] = new
                    for peer in range(trainers):
                        if peer != me:
                            dist.send(new, peer)
                else:
                    dist.recv(parts[source], source)
            new = torch.stack(parts).mean(0)
        params = new
        if me == 0:
            state.next_version(params)
    if me == 0:
        state.dismiss()
    return params


class Collector:
    def __init__(self, params, steps, batch, max_staleness, generators):
        self.params, self.version, self.steps, self.batch, self.limit = params, 0, steps, batch, max_staleness
        self.todo = list(range(steps * batch))
        self.works_on = {}
        self.idle = []
        self.left = set(generators)
        self.done = []

    def fill(self, block):
        while len(self.done) < self.batch:
            message = torch.empty(13, dtype=torch.float64)
            try:
                who = dist.recv(message)
            except RuntimeError as error:
                who = int(str(error).split("rank ")[1].split()[0])
                self.left.discard(who)
                if who in self.works_on:
                    self.back(self.works_on.pop(who))
                if who in self.idle:
                    self.idle.remove(who)
            else:
                if who in self.works_on:
                    prompt, version, _ = self.works_on.pop(who)
                    if self.version - version > self.limit:
                        self.back((prompt, version, None))
                    else:
                        self.done.append(torch.cat([torch.tensor([prompt, version], dtype=torch.float64), message[:9]]))
                self.idle.append(who)
                self.has = getattr(self, "has", {})
                self.has[who] = int(message[12])
            self.give()
        for row in block:
            row.copy_(self.done.pop(0))

    def back(self, work):
        self.todo.insert(0, work[0])
        self.todo.sort()  # those that come again have the smaller ids

    def give(self):
        while self.idle and self.todo:
            if self.limit == 0 and self.todo[0] >= (self.version + 1) * self.batch:
                break
            who = self.idle.pop(0)
            newer = self.has[who] < self.version
            prompt = self.todo.pop(0)
            self.works_on[who] = (prompt, self.version, None)
            dist.send(torch.tensor([prompt, self.version if newer else -1]), who)
            if newer:
                dist.send(self.params, who)

    def next_version(self, params):
        self.params, self.version = params, self.version + 1
        for row in list(self.done):
            if self.version - row[1] > self.limit:
                self.done = [other for other in self.done if other is not row]
                self.back((int(row[0]), 0, None))
        if self.version < self.steps:
            self.give()

    def dismiss(self):
        for who in self.idle:
            dist.send(torch.tensor([-1, -1]), who)
        for who in self.left - set(self.idle):
            message = torch.empty(13, dtype=torch.float64)
            dist.recv(message, who)
            dist.send(torch.tensor([-1, -1]), who)


def generator(params, generate, trainers):
    result = torch.zeros(13, dtype=torch.float64)  # sample, logprob, and the version that I have
    while True:
        dist.send(result, 0)
        order = torch.empty(2, dtype=torch.int64)
        dist.recv(order, 0)
        prompt, version = map(int, order)
        if prompt < 0:
            return
        if version >= 0:
            params = torch.empty(len(params))
            dist.recv(params, 0)
            result[12] = version
        sample, logprob = generate(params, prompt)
        result[:8] = sample
        result[8] = logprob
