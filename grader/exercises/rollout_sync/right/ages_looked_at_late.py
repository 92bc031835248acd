"""Right: ages are looked at only when a step is put together; three prompts for each generator."""

import re

import torch
import torch.distributed as dist


def trainer(params, optimizer_step, steps, batch, max_staleness, generators):
    rank, count = dist.get_rank(), dist.get_world_size() - len(generators)
    share, version = batch // count, 0
    if rank:
        for _ in range(steps):
            table = torch.zeros(share, 11)
            dist.recv(table, 0)
            dist.send(optimizer_step(params, [as_sample(row.tolist()) for row in table]), 0)
            params = torch.zeros_like(params)
            dist.recv(params, 0)
        return params
    todo, again, pool = list(range(steps * batch)), [], []
    hands = {g: [] for g in generators}
    has = dict.fromkeys(generators, 0)
    waiting, requests = 3 * list(generators), []

    def send(tensor, g):
        try:
            requests.append((dist.isend(tensor, g), tensor))
        except RuntimeError:
            pass

    def give():
        while waiting:
            if again:
                prompt = again.pop(0)
            elif todo and (max_staleness or todo[0] < (version + 1) * batch):
                prompt = todo.pop(0)
            else:
                return
            g = waiting.pop(0)
            hands[g].append(prompt)
            send(torch.tensor([prompt, version]), g)
            if has[g] < version:
                has[g] = version
                send(params, g)

    def usable(row):
        return version - row[1] <= max_staleness

    def put_back():
        again.extend(int(row[0]) for row in pool if not usable(row))
        again.sort()
        pool[:] = [row for row in pool if usable(row)]

    give()
    while version < steps:
        while sum(map(usable, pool)) < batch:
            if not any(hands.values()):  # nothing else can come
                put_back()
                give()
            row = torch.zeros(11)
            try:
                g = dist.recv(row)
            except RuntimeError as error:
                g = int(re.search(r"rank (\d+) is gone", str(error))[1])
                again.extend(hands.pop(g))
                again.sort()
                waiting[:] = [each for each in waiting if each != g]
            else:
                hands[g].remove(int(row[0]))
                pool.append(row.tolist())
                waiting.append(g)
            give()
        put_back()
        now, pool[:batch] = pool[:batch], []
        for k in range(1, count):
            dist.send(torch.tensor(now[k * share : (k + 1) * share]), k)
        total = optimizer_step(params, [as_sample(row) for row in now[:share]]).clone()
        for k in range(1, count):
            theirs = torch.zeros_like(total)
            dist.recv(theirs, k)
            total += theirs
        params, version = total / count, version + 1
        for k in range(1, count):
            dist.send(params, k)
        give()
    for g in hands:
        send(torch.tensor([-1, 0]), g)
    for request, _ in requests:
        try:
            request.wait()
        except RuntimeError:
            pass
    return params


def as_sample(row):
    return int(row[0]), int(row[1]), torch.tensor(row[2:10]), row[10]


def generator(params, generate, trainers):
    has, out = 0, []
    while True:
        order = torch.zeros(2, dtype=torch.int64)
        dist.recv(order, 0)
        prompt, version = order.tolist()
        if prompt < 0:
            break
        if version > has:
            params = torch.zeros(params.shape)
            dist.recv(params, 0)
            has = version
        sample, logprob = generate(params, prompt)
        row = torch.cat([torch.tensor([prompt, has], dtype=torch.float32), sample, torch.tensor([logprob])])
        out.append((dist.isend(row, 0), row))
    for request, _ in out:
        request.wait()
