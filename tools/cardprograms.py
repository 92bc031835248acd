"""What the ranks in the pictures of `cardpictures` run. It is sent to them as text: only they import torch."""

from time import perf_counter as now

import torch
import torch.distributed as dist

from grader import compute


def ring():
    n, rank = dist.get_world_size(), dist.get_rank()
    chunks = list(torch.ones(4 * n).chunk(n))
    for step in range(2 * (n - 1)):
        first = rank - step if step < n - 1 else rank + 1 - (step - n + 1)
        sent = dist.isend(chunks[first % n], (rank + 1) % n)
        incoming = torch.zeros(4)
        dist.recv(incoming, (rank - 1) % n)
        sent.wait()
        chunks[(first - 1) % n] = chunks[(first - 1) % n] + incoming if step < n - 1 else incoming


def gather_and_broadcast():
    n, rank, x = dist.get_world_size(), dist.get_rank(), torch.ones(4)
    if rank:
        dist.send(x, 0)
        dist.recv(x, 0)
        return
    for peer in range(1, n):
        incoming = torch.zeros(4)
        dist.recv(incoming, peer)
        x += incoming
    for peer in range(1, n):
        dist.send(x, peer)


def stuck():
    rank, x = dist.get_rank(), torch.ones(4)
    to, source = {0: (1, 2), 1: (2, 0), 2: (0, 1), 3: (None, 2)}[rank]
    if to is not None:
        dist.send(x, to)
    dist.recv(x, source)


def recursive_doubling():
    n, rank, x, distance = dist.get_world_size(), dist.get_rank(), torch.ones(4), 1
    while distance < n:
        peer, incoming = rank ^ distance, torch.zeros(4)
        sent = dist.isend(x.clone(), peer)
        dist.recv(incoming, peer)
        sent.wait()
        x += incoming
        distance *= 2


def steps():
    for _ in range(3):
        compute(3e-3 if dist.get_rank() == 2 else 2e-3)
        dist.all_reduce(torch.ones(4))


def buckets():
    marks, works = [], []
    for layer in (4, 3, 2, 1):
        begin = now()
        compute(2e-3)
        marks.append([begin, now(), f"layer {layer}", "backward"])
        works.append(dist.all_reduce(torch.ones(2**16), async_op=True))
    for work in works:
        work.wait()
    return marks, [[*work.span, f"bucket {k}", "all-reduce"] for k, work in enumerate(works)]


def one_forward_one_backward(micro_batches):
    stage, last, boxes, sent = dist.get_rank(), dist.get_world_size() - 1, [], []

    def one(name, seconds, source, to):
        if 0 <= source <= last:
            dist.recv(torch.zeros(1), source)
        since = now()
        compute(seconds)
        boxes.append([since, now(), name])
        if 0 <= to <= last:
            sent.append(dist.isend(torch.zeros(1), to))

    warm_up = min(last - stage, micro_batches)
    for k in range(warm_up):
        one(f"F{k}", 1.0, stage - 1, stage + 1)
    for k in range(micro_batches):
        if warm_up + k < micro_batches:
            one(f"F{warm_up + k}", 1.0, stage - 1, stage + 1)
        one(f"B{k}", 2.0, stage + 1, stage - 1)
    for request in sent:
        request.wait()
    return boxes


def gathers():
    shard, whole = torch.ones(4), torch.ones(8)
    for _ in range(2):
        dist.all_gather_into_tensor(whole, shard)
        compute(1e-3)
    for _ in range(2):
        dist.all_gather_into_tensor(whole, shard)
        compute(2e-3)
        dist.reduce_scatter_tensor(shard, whole)
    compute(0.5e-3)


def server():
    rank, w, gradient = dist.get_rank(), torch.zeros(1), torch.zeros(1)
    if rank == 0:
        for _ in range(12):
            dist.send(w, dist.recv(gradient))
        return
    for _ in range({1: 5, 2: 5, 3: 2}[rank]):
        dist.send(gradient, 0)
        dist.recv(w, 0)
        compute({1: 1.5e-3, 2: 1.7e-3, 3: 5e-3}[rank])


def leaves_one_out():
    for step in range(4):
        if (dist.get_rank(), step) == (1, 0):
            continue
        dist.all_reduce(torch.ones(4))
