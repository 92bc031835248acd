"""Roots and inner nodes start all their messages at once, the largest subtree's first, and then wait for all."""

import torch
import torch.distributed as dist


def tree(root):
    """This rank's parent in the binomial tree (None for the root) and its children, the largest subtree first."""
    n, rank = dist.get_world_size(), dist.get_rank()
    place = (rank - root) % n
    width = (n - 1).bit_length() if place == 0 else (place & -place).bit_length() - 1
    children = [(rank + 2**k) % n for k in reversed(range(width)) if place + 2**k < n]
    return (rank - (place & -place)) % n if place else None, children


def wait_for(requests):
    for request in requests:
        request.wait()


def broadcast(tensor, src):
    parent, children = tree(src)
    if parent is not None:
        dist.irecv(tensor, parent).wait()
    wait_for([dist.isend(tensor, child) for child in children])
    return tensor


def reduce(tensor, dst):
    parent, children = tree(dst)
    parts = [torch.empty_like(tensor) for _ in children]
    wait_for([dist.irecv(part, child) for part, child in zip(parts, children)])
    total = torch.stack([tensor, *parts]).sum(0, dtype=tensor.dtype)
    if parent is None:
        tensor.copy_(total)
    else:
        dist.isend(total, parent).wait()


def scatter(chunks, src):
    rank, n = dist.get_rank(), dist.get_world_size()
    dtypes = [torch.float64, torch.float32, torch.float16, torch.int64, torch.int32, torch.uint8, torch.bool]
    header = torch.full((8,), -1, dtype=torch.int32)
    if rank != src:
        dist.irecv(header, src).wait()
        numbers = header[header >= 0].tolist()
        chunk = torch.zeros(*numbers[1:], dtype=dtypes[numbers[0]])
        dist.irecv(chunk, src).wait()
        return chunk
    header[0] = dtypes.index(chunks[0].dtype)
    header[1 : 1 + chunks[0].ndim] = torch.tensor(chunks[0].shape)
    wait_for([dist.isend(part, peer) for peer in range(n) if peer != src for part in (header, chunks[peer])])
    return chunks[src]


def gather(tensor, dst):
    if dist.get_rank() == dst:
        return collect(tensor, [], range(dist.get_world_size()))
    collect(tensor, [(dst, tensor)], ())
    return None


def all_gather(tensor):
    n = dist.get_world_size()
    return collect(tensor, [(peer, tensor) for peer in range(n)], range(n))


def all_to_all(chunks):
    return collect(chunks[dist.get_rank()], list(enumerate(chunks)), range(len(chunks)))


def reduce_scatter(chunks):
    total = torch.zeros_like(chunks[0])
    for part in all_to_all(chunks):
        total += part
    return total


def collect(own, sends, sources):
    """Start every send and a receive from each of `sources`; `own` stands for this rank. All of them, in rank order."""
    rank = dist.get_rank()
    parts = [own.clone() if peer == rank else torch.empty_like(own) for peer in sources]
    receives = [dist.irecv(parts[peer], peer) for peer in sources if peer != rank]
    wait_for([dist.isend(tensor, peer) for peer, tensor in sends if peer != rank] + receives)
    return parts


def barrier():
    n, rank, token = dist.get_world_size(), dist.get_rank(), torch.zeros(1)
    for k in range((n - 1).bit_length()):
        request = dist.isend(token, (rank - (1 << k)) % n)
        dist.recv(torch.zeros(1), (rank + (1 << k)) % n)
        request.wait()
