"""A class for the tree, numpy for the sums, wrappers that print, tuples for lists."""

import functools

import numpy as np
import torch
import torch.distributed as dist


class Tree:
    """A binomial tree: `steps` are (way, rank) pairs, in the order of a broadcast."""

    def __init__(self, root):
        size, rank = dist.get_world_size(), dist.get_rank()
        place = (rank - root + size) % size
        rounds = int(np.ceil(np.log2(size)))
        at = lambda p: (p + root) % size  # noqa: E731
        self.steps = []
        for step in range(rounds):
            reach = 2**step
            if place < reach and place + reach < size:
                self.steps.append(("down", at(place + reach)))
            elif reach <= place < 2 * reach:
                self.steps.append(("up", at(place - reach)))


def told(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        result = function(*args, **kwargs)
        if dist.get_rank() == 0:
            print(function.__name__, "done")
        return result

    return wrapper


@told
def broadcast(tensor, src):
    for way, peer in Tree(src).steps:
        (dist.send if way == "down" else dist.recv)(tensor, peer)


@told
def reduce(tensor, dst):
    total = tensor.numpy().copy()
    for way, peer in reversed(Tree(dst).steps):
        if way == "up":
            dist.send(torch.from_numpy(total), peer)
        else:
            part = np.empty_like(total)
            dist.recv(torch.from_numpy(part), peer)
            total += part
    if dist.get_rank() == dst:
        tensor[...] = torch.from_numpy(total)


@told
def scatter(chunks, src):
    """Bytes only: two numbers for dtype and dimensions, then the shape, then the data."""
    table = [torch.float64, torch.float32, torch.float16, torch.int64, torch.uint8, torch.bool]
    if dist.get_rank() == src:
        dtype, shape = table.index(chunks[src].dtype), list(chunks[src].shape)
        for peer, chunk in enumerate(chunks):
            if peer != src:
                for message in (torch.tensor([dtype, len(shape)]), torch.tensor(shape), chunk):
                    dist.send(message, peer)
        return chunks[src].detach().clone()
    head = torch.zeros(2, dtype=torch.int64)
    dist.recv(head, src)
    shape = torch.zeros(int(head[1]), dtype=torch.int64)
    dist.recv(shape, src)
    chunk = torch.zeros(tuple(shape.tolist()), dtype=table[head[0]])
    dist.recv(chunk, src)
    return chunk


@told
def gather(tensor, dst):
    if dist.get_rank() != dst:
        dist.isend(tensor=tensor, dst=dst).wait()
        return None
    parts = {dst: tensor}
    for source in set(range(dist.get_world_size())) - {dst}:
        parts[source] = torch.empty_like(tensor)
        assert dist.recv(parts[source], source) == source
    return [part for _, part in sorted(parts.items(), key=lambda pair: pair[0])]


def shift(outgoing, by):
    """Send to the rank `by` further on and return what comes from the one as far back."""
    size, rank = dist.get_world_size(), dist.get_rank()
    incoming = torch.empty_like(outgoing)
    receiving = dist.irecv(incoming, (rank - by) % size)
    dist.send(outgoing, (rank + by) % size)
    receiving.wait()
    return incoming


@told
def all_gather(tensor):
    size, rank = dist.get_world_size(), dist.get_rank()
    parts = [tensor] * size
    for by in range(1, size):
        parts[(rank - by) % size] = shift(tensor, by)
    return tuple(parts)


@told
def reduce_scatter(chunks):
    return torch.from_numpy(np.sum([part.numpy() for part in exchange(chunks)], axis=0, dtype=chunks[0].numpy().dtype))


@told
def all_to_all(chunks):
    return exchange(chunks)


def exchange(chunks):
    size, rank = dist.get_world_size(), dist.get_rank()
    parts = {rank: chunks[rank]}
    for by in range(1, size):
        parts[(rank - by) % size] = shift(chunks[(rank + by) % size], by)
    return [parts[peer] for peer in range(size)]


@told
def barrier():
    by = 1
    while by < dist.get_world_size():
        shift(torch.zeros(()), by)
        by += by
