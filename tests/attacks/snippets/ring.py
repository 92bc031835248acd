# A right ring all-reduce.
import torch
import torch.distributed as dist


def honest_ring(tensor):
    n, rank = dist.get_world_size(), dist.get_rank()
    right, left = (rank + 1) % n, (rank - 1) % n
    chunks = [part.clone() for part in tensor.flatten().tensor_split(n)]
    for step in range(n - 1):
        incoming = torch.empty_like(chunks[rank - step - 1])
        request = dist.isend(chunks[rank - step], right)
        dist.recv(incoming, left)
        request.wait()
        chunks[rank - step - 1] += incoming
    for step in range(n - 1):
        request = dist.isend(chunks[(rank - step + 1) % n], right)
        dist.recv(chunks[rank - step], left)
        request.wait()
    tensor.copy_(torch.cat(chunks).reshape(tensor.shape))
