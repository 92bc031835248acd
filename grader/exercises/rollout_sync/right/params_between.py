"""Right: new versions arrive while a generator works, in a buffer of their own; it takes them between two prompts."""

import torch
import torch.distributed as dist

PROMPTS, VERSIONS, RESULTS, TRAINERS = 1, 2, 3, 4  # tags


def trainer(params, optimizer_step, steps, batch, max_staleness, generators):
    everyone = range(dist.get_world_size())
    trainers = [rank for rank in everyone if rank not in set(generators)]
    me, share = dist.get_rank(), batch // len(trainers)
    hub = Hub(params, steps * batch, batch, max_staleness, generators) if me == 0 else None
    for _ in range(steps):
        mine = hub.gather(trainers) if hub else [unpack(receive((13,), 0, TRAINERS)) for _ in range(share)]
        result = optimizer_step(params, mine)
        for peer in trainers:
            if peer != me:
                dist.isend(result, peer, tag=TRAINERS)
        total = torch.zeros(len(params), dtype=torch.float64)
        for peer in trainers:
            total += result if peer == me else receive(params.shape, peer, TRAINERS)
        params = (total / len(trainers)).float()
        if hub:
            hub.new_version(params)
    if hub:
        hub.close()
    return params


def receive(shape, source, tag):
    tensor = torch.empty(shape)
    dist.recv(tensor, source, tag=tag)
    return tensor


def pack(prompt, version, sample, logprob):
    return torch.tensor([float(prompt), float(version), *sample.tolist(), logprob, 0.0, 0.0])


def unpack(row):
    return int(row[0]), int(row[1]), row[2:10].clone(), float(row[10])


class Hub:
    def __init__(self, params, prompts, batch, max_staleness, generators):
        self.params, self.version, self.prompts, self.batch = params, 0, prompts, batch
        self.max_staleness = max_staleness
        self.assigned = {generator: [] for generator in generators}
        self.known = dict.fromkeys(generators, 0)
        self.todo = list(range(prompts))
        self.usable, self.flying = [], []
        self.spread()

    def fly(self, tensor, to, tag):
        try:
            self.flying.append((dist.isend(tensor, to, tag=tag), tensor))
        except RuntimeError:
            self.known[to] = -1

    def spread(self):
        while self.todo and (self.max_staleness or self.todo[0] < (self.version + 1) * self.batch):
            hungry = min(self.assigned, key=lambda g: len(self.assigned[g]), default=None)
            if hungry is None or len(self.assigned[hungry]) > 1:
                return
            prompt = self.todo.pop(0)
            self.assigned[hungry].append(prompt)
            if self.known[hungry] < self.version:
                self.known[hungry] = self.version
                self.fly(torch.cat([torch.tensor([float(self.version)]), self.params]), hungry, VERSIONS)
            self.fly(torch.tensor([prompt, self.version]), hungry, PROMPTS)

    def gather(self, trainers):
        while len(self.usable) < self.batch:
            row = torch.empty(13)
            try:
                source = dist.recv(row, tag=RESULTS)
            except RuntimeError as error:
                source = int(str(error).rsplit("rank ", 1)[1].split()[0])
                self.todo = sorted(self.todo + self.assigned.pop(source))
            else:
                self.assigned[source].remove(int(row[0]))
                self.usable.append(row)
            self.sift()
            self.spread()
        rows, self.usable = self.usable[: self.batch], self.usable[self.batch :]
        for number, row in enumerate(rows):
            if number % len(trainers):
                dist.send(row, number % len(trainers), tag=TRAINERS)
        return [unpack(row) for row in rows[:: len(trainers)]]

    def sift(self):
        bad = [int(row[0]) for row in self.usable if self.version - row[1] > self.max_staleness]
        self.usable = [row for row in self.usable if int(row[0]) not in bad]
        self.todo = sorted(self.todo + bad)

    def new_version(self, params):
        self.params, self.version = params, self.version + 1
        self.sift()
        self.spread()

    def close(self):
        for generator in self.assigned:
            self.fly(torch.tensor([-1, 0]), generator, PROMPTS)
        for work, _ in self.flying:
            try:
                work.wait()
            except RuntimeError:
                pass


def generator(params, generate, trainers):
    has = 0
    buffer = torch.empty(len(params) + 1)
    arriving = dist.irecv(buffer, 0, tag=VERSIONS)
    order = torch.empty(2, dtype=torch.int64)
    keep = []
    while True:
        dist.recv(order, 0, tag=PROMPTS)
        prompt, least = order.tolist()
        if prompt < 0:
            return
        while has < least:
            arriving.wait()
            has, params = int(buffer[0]), buffer[1:].clone()
            arriving = dist.irecv(buffer, 0, tag=VERSIONS)
        sample, logprob = generate(params, prompt)
        row = pack(prompt, has, sample, logprob)
        keep.append((dist.isend(row, 0, tag=RESULTS), row))
