"""Right: a generator asks for its next prompt before it generates the current one; trainers use collectives."""

import re

import torch
import torch.distributed as dist

ASK, RESULT = 1.0, 2.0
END = -1


def trainer(params, optimizer_step, steps, batch, max_staleness, generators):
    n_trainers = dist.get_world_size() - len(generators)
    group = dist.new_group(list(range(n_trainers)))
    rank = dist.get_rank()
    version = 0
    fresh = iter(range(steps * batch))
    redo, ready, asking, alive = [], [], [], set(generators)
    running = {g: [] for g in generators}
    sent_version = {g: 0 for g in generators}
    requests = []
    taken = 0  # new prompts that were handed out

    def post(tensor, g):
        try:
            requests.append((dist.isend(tensor, g), tensor))
        except RuntimeError:
            pass

    def serve():
        nonlocal taken
        while asking:
            if redo:
                redo.sort()
                prompt = redo.pop(0)
            elif max_staleness == 0 and taken >= (version + 1) * batch:
                return
            else:
                prompt = next(fresh, None)
                if prompt is None:
                    return
                taken += 1
            g = asking.pop(0)
            running[g].append(prompt)
            newer = sent_version[g] < version
            post(torch.tensor([float(prompt), float(version), float(newer)]), g)
            if newer:
                post(params, g)
                sent_version[g] = version

    def forget_old():
        for item in list(ready):
            if version - item[1] > max_staleness:
                ready.remove(item)
                redo.append(int(item[0]))

    def listen():
        message = torch.empty(12)
        try:
            g = dist.recv(message)
        except RuntimeError as error:
            g = int(re.findall(r"rank (\d+) is gone", str(error))[0])
            alive.discard(g)
            redo.extend(running.pop(g, []))
            while g in asking:
                asking.remove(g)
        else:
            if message[0] == ASK:
                asking.append(g)
            else:
                prompt = int(message[1])
                running[g].remove(prompt)
                ready.append((prompt, int(message[2]), message[3:11].clone(), float(message[11])))
                forget_old()
        serve()

    for step in range(steps):
        share = batch // n_trainers
        buffer = torch.empty(share, 11)
        parts = None
        if rank == 0:
            while len(ready) < batch:
                listen()
            now, ready[:batch] = ready[:batch], []
            table = torch.stack([torch.cat([torch.tensor([float(p), float(v), lp]), s]) for p, v, s, lp in now])
            parts = [each.clone() for each in table.view(n_trainers, share, 11).unbind()]
        dist.scatter(buffer, parts, src=0, group=group)
        samples = [(int(row[0]), int(row[1]), row[3:].clone(), float(row[2])) for row in buffer]
        result = optimizer_step(params, samples).clone()
        dist.all_reduce(result, group=group)
        params = result / n_trainers
        version += 1
        if rank == 0:
            forget_old()
            serve()
    if rank == 0:
        for g in alive:
            post(torch.tensor([float(END), 0.0, 0.0]), g)
        for request, _ in requests:
            try:
                request.wait()
            except RuntimeError:
                pass
    return params


def generator(params, generate, trainers):
    dist.new_group(list(trainers))
    mine, version = params, 0
    pending = []

    def say(kind, numbers=()):
        message = torch.zeros(12)
        message[0] = kind
        for place, number in enumerate(numbers, 1):
            message[place] = number
        pending.append((dist.isend(message, 0), message))

    def next_prompt():
        answer = torch.empty(3)
        dist.recv(answer, 0)
        nonlocal mine, version
        if answer[2]:
            mine = torch.empty_like(params)
            dist.recv(mine, 0)
            version = int(answer[1])
        return int(answer[0])

    say(ASK)
    prompt = next_prompt()
    while prompt != END:
        say(ASK)
        used = version
        sample, logprob = generate(mine, prompt)
        say(RESULT, [prompt, used, *sample.tolist(), logprob])
        prompt = next_prompt()
    # requests that nobody answers any more are left as they are
