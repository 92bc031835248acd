"""Right: trainer 0 pushes. Each new version goes to every generator at once, and each has a queue of three prompts."""

import torch
import torch.distributed as dist

PROMPT, PARAMS, OVER = 0, 1, 2
DEEP = 3


class Link:
    """What trainer 0 sends one generator. Nothing here waits."""

    def __init__(self, rank):
        self.rank, self.queue, self.kept, self.alive = rank, [], [], True

    def put(self, kind, number, params=None):
        for tensor in [torch.tensor([kind, number], dtype=torch.int32)] + ([params] if params is not None else []):
            try:
                self.kept.append((dist.isend(tensor, self.rank, tag=7), tensor))
            except RuntimeError:
                self.alive = False

    def settle(self):
        for work, _ in self.kept:
            try:
                work.wait()
            except RuntimeError:
                pass


def trainer(params, optimizer_step, steps, batch, max_staleness, generators):
    trainers = [rank for rank in range(dist.get_world_size()) if rank not in generators]
    if dist.get_rank() != trainers[0]:
        return follow(params, optimizer_step, steps, batch, trainers)
    links = {rank: Link(rank) for rank in generators}
    waiting = list(range(steps * batch))  # ids that nobody has, ascending
    arrived = []
    version = 0

    def hand_out():
        for depth in range(1, DEEP + 1):  # everybody gets one before anybody gets another
            for link in links.values():
                last = (version + 1) * batch if max_staleness == 0 else steps * batch
                if link.alive and len(link.queue) < depth and waiting and waiting[0] < last:
                    link.queue.append(waiting.pop(0))
                    link.put(PROMPT, link.queue[-1])

    def take_back(prompts):
        waiting.extend(prompts)
        waiting.sort()

    def discard():
        too_old = [s for s in arrived if version - s[1] > max_staleness]
        for s in too_old:
            arrived.remove(s)
        take_back([s[0] for s in too_old])

    hand_out()
    while version < steps:
        while len(arrived) < batch:
            packet = torch.empty(11)
            try:
                source = dist.recv(packet, tag=3)
            except RuntimeError as error:
                words = str(error).replace(",", " ").split()
                link = links[int(words[words.index("rank") + 1])]
                link.alive = False
                take_back(link.queue)
                link.queue = []
            else:
                links[source].queue.remove(int(packet[0]))
                arrived.append((int(packet[0]), int(packet[1]), packet[2:10], float(packet[10])))
                discard()
            hand_out()
        chosen, arrived = arrived[:batch], arrived[batch:]
        each = batch // len(trainers)
        for number, peer in enumerate(trainers[1:], 1):
            part = chosen[number * each : (number + 1) * each]
            dist.send(torch.stack([torch.tensor([float(p), float(v), *s.tolist(), lp]) for p, v, s, lp in part]), peer)
        total = optimizer_step(params, chosen[:each]) / len(trainers)
        for peer in trainers[1:]:
            other = torch.empty_like(params)
            dist.recv(other, peer)
            total = total + other / len(trainers)
        for peer in trainers[1:]:
            dist.send(total, peer)
        params, version = total, version + 1
        for link in links.values():
            if link.alive and version < steps:
                link.put(PARAMS, version, params)
        discard()
        hand_out()
    for link in links.values():
        if link.alive:
            link.put(OVER, 0)
        link.settle()
    return params


def follow(params, optimizer_step, steps, batch, trainers):
    for _ in range(steps):
        rows = torch.empty(batch // len(trainers), 11)
        dist.recv(rows, trainers[0])
        part = optimizer_step(params, [(int(r[0]), int(r[1]), r[2:10].contiguous(), r[10].item()) for r in rows])
        dist.send(part, trainers[0])
        params = torch.empty_like(params)
        dist.recv(params, trainers[0])
    return params


def generator(params, generate, trainers):
    version, work = 0, None
    while True:
        head = torch.empty(2, dtype=torch.int32)
        dist.recv(head, trainers[0], tag=7)
        kind, number = head.tolist()
        if kind == OVER:
            break
        if kind == PARAMS:
            params = torch.empty_like(params)
            dist.recv(params, trainers[0], tag=7)
            version = number
            continue
        sample, logprob = generate(params, number)
        if work:
            work[0].wait()
        packet = torch.tensor([number, version, *sample.tolist(), logprob])
        work = dist.isend(packet, trainers[0], tag=3), packet
    if work:
        work[0].wait()
