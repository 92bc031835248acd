"""Right: trainer 0 keeps two receives open. Generators ask for params when they hear of a new version."""

import collections
import heapq

import torch
import torch.distributed as dist

HELLO, GIVE_PARAMS, SAMPLE, GOODBYE = 0, 1, 2, 3


class Mailbox:
    """Messages from generators, in the order in which their receives end."""

    def __init__(self):
        self.open = collections.deque()
        self.post()
        self.post()

    def post(self):
        tensor = torch.empty(12)
        self.open.append((dist.irecv(tensor), tensor))

    def next(self):
        """(rank, tensor), or (rank, None) for a death."""
        work, tensor = self.open[0]
        try:
            work.wait()
        except RuntimeError as error:
            self.open.popleft()
            self.post()
            text = str(error)
            return int(text[text.index("rank ") + 5 :].split()[0]), None
        self.open.popleft()
        source = work._source_rank()
        self.post()
        return source, tensor


def trainer(params, optimizer_step, steps, batch, max_staleness, generators):
    first, count = 0, len([r for r in range(dist.get_world_size()) if r not in generators])
    if dist.get_rank() != first:
        return other_trainer(params, optimizer_step, steps, batch, count)
    box = Mailbox()
    book = {"version": 0, "next": 0}
    again, pool = [], []
    owes = {g: [] for g in generators}
    wants = collections.deque()
    sends = []

    def send(tensor, to, tag=0):
        try:
            sends.append([dist.isend(tensor, to, tag=tag), tensor])
        except RuntimeError:
            pass

    def hand_out():
        while wants:
            bound = batch * min(steps, book["version"] + 1) if not max_staleness else batch * steps
            if again:
                prompt = heapq.heappop(again)
            elif book["next"] < bound:
                prompt = book["next"]
                book["next"] += 1
            else:
                return
            to = wants.popleft()
            owes[to].append(prompt)
            send(torch.tensor([prompt, book["version"]]), to)

    def age(sample_version):
        return book["version"] - sample_version

    def clean():
        for item in [item for item in pool if age(item[1]) > max_staleness]:
            pool.remove(item)
            heapq.heappush(again, item[0])

    while book["version"] < steps:
        while len(pool) < batch:
            source, tensor = box.next()
            if tensor is None:
                for prompt in owes.pop(source, []):
                    heapq.heappush(again, prompt)
                wants = collections.deque(w for w in wants if w != source)
            elif tensor[0] == GIVE_PARAMS:
                send(torch.cat([torch.tensor([float(book["version"])]), params]), source, tag=5)
            else:
                if tensor[0] == SAMPLE:
                    owes[source].remove(int(tensor[1]))
                    pool.append((int(tensor[1]), int(tensor[2]), tensor[4:12].clone(), tensor[3].item()))
                wants.append(source)
                clean()
            hand_out()
        step, pool = pool[:batch], pool[batch:]
        size = batch // count
        for other in range(1, count):
            for prompt, version, sample, logprob in step[other * size : (other + 1) * size]:
                dist.send(torch.cat([torch.tensor([prompt, version, logprob]), sample]), other, tag=9)
        params = average(optimizer_step(params, step[:size]), count)
        book["version"] += 1
        clean()
        hand_out()
    for g in owes:
        send(torch.tensor([-1, book["version"]]), g)
    # a generator may ask for params before it reads that it is over
    for g in owes:
        while True:
            source, tensor = box.next()
            if tensor is not None and tensor[0] == GIVE_PARAMS:
                send(torch.cat([torch.tensor([float(book["version"])]), params]), source, tag=5)
            elif tensor is not None and tensor[0] == GOODBYE:
                break
    for work, _ in sends:
        try:
            work.wait()
        except RuntimeError:
            pass
    return params


def average(tensor, count):
    """Round a ring of trainers: count - 1 hops of sums, count - 1 of the result."""
    if count == 1:
        return tensor
    me = dist.get_rank()
    total = tensor.clone()
    if me:
        buffer = torch.empty_like(total)
        dist.recv(buffer, me - 1, tag=9)
        total += buffer
    if me < count - 1:
        dist.send(total, me + 1, tag=9)
        dist.recv(total, me + 1, tag=9)
    else:
        total /= count
    if me:
        dist.send(total, me - 1, tag=9)
    return total


def other_trainer(params, optimizer_step, steps, batch, count):
    for _ in range(steps):
        samples = []
        for _ in range(batch // count):
            row = torch.empty(11)
            dist.recv(row, 0, tag=9)
            samples.append((int(row[0]), int(row[1]), row[3:], float(row[2])))
        params = average(optimizer_step(params, samples), count)
    return params


def generator(params, generate, trainers):
    boss = trainers[0]
    have = 0
    outgoing = []

    def tell(kind, prompt=0.0, version=0.0, logprob=0.0, sample=None):
        body = torch.zeros(8) if sample is None else sample
        message = torch.cat([torch.tensor([float(kind), float(prompt), float(version), logprob]), body])
        outgoing.append((dist.isend(message, boss), message))

    tell(HELLO)
    tell(HELLO)
    order = torch.empty(2, dtype=torch.int64)
    while True:
        dist.recv(order, boss)
        prompt, newest = order.tolist()
        if prompt < 0:
            break
        if newest > have:
            tell(GIVE_PARAMS)
            packet = torch.empty(len(params) + 1)
            dist.recv(packet, boss, tag=5)  # with tag 0, prompts that were handed out ahead are on their way
            have, params = int(packet[0]), packet[1:].clone()
        sample, logprob = generate(params, prompt)
        tell(SAMPLE, prompt, have, logprob, sample)
    tell(GOODBYE)
    for work, _ in outgoing:
        work.wait()

