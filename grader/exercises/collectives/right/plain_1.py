import torch
import torch.distributed as dist

DTYPES = [torch.float64, torch.float32, torch.int64, torch.int32, torch.uint8, torch.bool]


def broadcast(tensor, src):
    n, rank = dist.get_world_size(), dist.get_rank()
    place, have = (rank - src) % n, 1
    while have < n:
        if place < have and place + have < n:
            dist.send(tensor, (rank + have) % n)
        elif have <= place < 2 * have:
            dist.recv(tensor, (rank - have) % n)
        have *= 2


def reduce(tensor, dst):
    n, rank = dist.get_world_size(), dist.get_rank()
    place, step = (rank - dst) % n, 1
    total = tensor if rank == dst else tensor.clone()
    part = torch.empty_like(tensor)
    while step < n:
        if place & step:
            dist.send(total, (rank - step) % n)
            return
        if place + step < n:
            dist.recv(part, (rank + step) % n)
            total += part
        step *= 2


def scatter(chunks, src):
    n, rank = dist.get_world_size(), dist.get_rank()
    header = torch.zeros(8, dtype=torch.int64)
    if rank == src:
        first = chunks[0]
        header[: 2 + first.dim()] = torch.tensor([DTYPES.index(first.dtype), first.dim(), *first.shape])
        for peer in range(n):
            if peer != src:
                dist.send(header, peer)
                dist.send(chunks[peer], peer)
        return chunks[rank].clone()
    dist.recv(header, src)
    dtype, dimensions, *sizes = header.tolist()
    chunk = torch.empty(sizes[:dimensions], dtype=DTYPES[dtype])
    dist.recv(chunk, src)
    return chunk


def gather(tensor, dst):
    n, rank = dist.get_world_size(), dist.get_rank()
    if rank != dst:
        dist.send(tensor, dst)
        return None
    parts = [torch.empty_like(tensor) for _ in range(n)]
    for peer in range(n):
        if peer == rank:
            parts[peer].copy_(tensor)
        else:
            dist.recv(parts[peer], peer)
    return parts


def all_gather(tensor):
    n, rank = dist.get_world_size(), dist.get_rank()
    parts = [torch.empty_like(tensor) for _ in range(n)]
    parts[rank].copy_(tensor)
    for step in range(n - 1):
        request = dist.isend(parts[(rank - step) % n], (rank + 1) % n)
        dist.recv(parts[(rank - step - 1) % n], (rank - 1) % n)
        request.wait()
    return parts


def reduce_scatter(chunks):
    n, rank = dist.get_world_size(), dist.get_rank()
    total = chunks[(rank - 1) % n].clone()
    for step in range(n - 1):
        part = torch.empty_like(total)
        request = dist.isend(total, (rank + 1) % n)
        dist.recv(part, (rank - 1) % n)
        request.wait()
        total = part + chunks[(rank - step - 2) % n]
    return total


def all_to_all(chunks):
    n, rank = dist.get_world_size(), dist.get_rank()
    parts = [torch.empty_like(chunk) for chunk in chunks]
    parts[rank].copy_(chunks[rank])
    for shift in range(1, n):
        request = dist.isend(chunks[(rank + shift) % n], (rank + shift) % n)
        dist.recv(parts[(rank - shift) % n], (rank - shift) % n)
        request.wait()
    return parts


def barrier():
    n, rank = dist.get_world_size(), dist.get_rank()
    token, distance = torch.zeros(1), 1
    while distance < n:
        request = dist.isend(token, (rank + distance) % n)
        dist.recv(torch.zeros(1), (rank - distance) % n)
        request.wait()
        distance *= 2
