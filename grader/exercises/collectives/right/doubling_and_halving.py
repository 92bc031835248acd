"""Recursive doubling and halving where N is a power of two, a ring or plain trees where it is not; recursive trees."""

import torch
import torch.distributed as dist

DTYPES = (torch.float64, torch.float32, torch.float16, torch.int64, torch.uint8, torch.bool)


def me():
    return dist.get_rank(), dist.get_world_size()


def power_of_two(n):
    return n & (n - 1) == 0


def swap(outgoing, incoming, target, source=None):
    request = dist.isend(outgoing, target)
    dist.recv(incoming, target if source is None else source)
    request.wait()


def largest_half(count):
    """The least power of two that is at least half of `count`."""
    half = 1
    while 2 * half < count:
        half *= 2
    return half


def down(first, count, root, work_down):
    """Walk the binomial tree over places first .. first+count-1 from its root; work_down(parent, child, places)."""
    if count == 1:
        return
    half = largest_half(count)
    work_down(first, first + half, range(first + half, first + count))
    down(first, half, root, work_down)
    down(first + half, count - half, root, work_down)


def broadcast(tensor, src):
    rank, n = me()
    place = (rank - src) % n

    def step(parent, child, _):
        if place == parent:
            dist.send(tensor, (child + src) % n)
        elif place == child:
            dist.recv(tensor, (parent + src) % n)

    down(0, n, src, step)


def reduce(tensor, dst):
    rank, n = me()
    total = sum_of_subtree(tensor.clone(), (rank - dst) % n, 0, n, dst)
    if rank == dst:
        tensor.copy_(total)


def sum_of_subtree(total, place, first, count, dst):
    """Both halves first, then the second half's root sends its sum to the first half's."""
    n = dist.get_world_size()
    if count == 1 or not first <= place < first + count:
        return total
    half = largest_half(count)
    total = sum_of_subtree(total, place, first, half, dst)
    total = sum_of_subtree(total, place, first + half, count - half, dst)
    if place == first:
        part = torch.empty_like(total)
        dist.recv(part, (first + half + dst) % n)
        return total + part
    if place == first + half:
        dist.send(total, (first + dst) % n)
    return total


def scatter(chunks, src):
    """Down a tree: each child gets a header and then the chunks of its whole subtree."""
    rank, n = me()
    place = (rank - src) % n
    held = {}
    if rank == src:
        held = {(peer - src) % n: chunk for peer, chunk in enumerate(chunks)}

    def step(parent, child, places):
        if place == parent:
            one = held[parent]
            about = torch.full((9,), -1)
            about[: one.dim() + 1] = torch.tensor([DTYPES.index(one.dtype), *one.shape])
            dist.send(about, (child + src) % n)
            dist.send(torch.stack([held[p] for p in places]), (child + src) % n)
        elif place == child:
            about = torch.empty(9, dtype=torch.int64)
            dist.recv(about, (parent + src) % n)
            dtype, *sizes = [number for number in about.tolist() if number >= 0]
            block = torch.empty([len(places), *sizes], dtype=DTYPES[dtype])
            dist.recv(block, (parent + src) % n)
            held.update(zip(places, block))

    down(0, n, src, step)
    return held[place].clone()


def gather(tensor, dst):
    """Up a tree of doubling distance: each rank brings the block of its subtree."""
    rank, n = me()
    place, distance = (rank - dst) % n, 1
    block = tensor.unsqueeze(0)
    while distance < n:
        if place & distance:
            dist.send(block, (rank - distance) % n)
            return None
        if place + distance < n:
            count = min(distance, n - place - distance)
            more = torch.empty((count, *tensor.shape), dtype=tensor.dtype)
            dist.recv(more, (rank + distance) % n)
            block = torch.cat([block, more])
        distance *= 2
    return [block[(peer - dst) % n].clone() for peer in range(n)]


def all_gather(tensor):
    rank, n = me()
    table = torch.empty((n, *tensor.shape), dtype=tensor.dtype)
    table[rank] = tensor
    if power_of_two(n):
        size = 1
        while size < n:
            mine, theirs = rank // size * size, (rank ^ size) // size * size
            swap(table[mine : mine + size].clone(), table[theirs : theirs + size], rank ^ size)
            size *= 2
    else:
        for step in range(n - 1):
            swap(table[(rank - step) % n], table[(rank - step - 1) % n], (rank + 1) % n, (rank - 1) % n)
    return list(table.unbind(0))


def reduce_scatter(chunks):
    rank, n = me()
    if not power_of_two(n):
        parts = all_to_all(chunks)
        total = parts[0]
        for part in parts[1:]:
            total = total + part
        return total
    table, first, size = torch.stack(chunks), 0, n
    while size > 1:
        half = size // 2
        lower = rank < first + half
        keep = table[:half] if lower else table[half:]
        give = table[half:] if lower else table[:half]
        incoming = torch.empty_like(keep)
        swap(give, incoming, rank + half if lower else rank - half)
        table = keep + incoming
        first, size = first if lower else first + half, half
    return table[0]


def all_to_all(chunks):
    rank, n = me()
    parts = [chunks[rank]] * n
    for step in range(1, n):
        target, source = (rank ^ step, rank ^ step) if power_of_two(n) else ((step - rank) % n, (step - rank) % n)
        if target == rank:
            continue
        parts[source] = torch.empty_like(chunks[rank])
        swap(chunks[target], parts[source], target, source)
    if not power_of_two(n) and (-rank) % n != rank:  # step 0 of the schedule by sums
        peer = -rank % n
        parts[peer] = torch.empty_like(chunks[rank])
        swap(chunks[peer], parts[peer], peer)
    return parts


def barrier():
    rank, n = me()
    token = torch.zeros(1, dtype=torch.uint8)
    if power_of_two(n):
        step = 1
        while step < n:
            swap(token, torch.empty_like(token), rank ^ step)
            step *= 2
    else:
        for k in range((n - 1).bit_length()):
            swap(token, torch.empty_like(token), (rank + 2**k) % n, (rank - 2**k) % n)
