import torch
import torch.distributed as dist


def ring_all_reduce(tensor):
    n, rank = dist.get_world_size(), dist.get_rank()
    flat = tensor.reshape(-1).clone()
    length = flat.numel() // n
    chunk = lambda i: flat[(i % n) * length : (i % n + 1) * length]
    right, left = (rank + 1) % n, (rank - 1) % n
    incoming = torch.empty(length, dtype=flat.dtype)
    for step in range(n - 1):
        request = dist.isend(chunk(rank - step), right)
        dist.recv(incoming, left)
        request.wait()
        chunk(rank - step - 1).add_(incoming)
    for step in range(n - 1):
        request = dist.isend(chunk(rank + 1 - step), right)
        dist.recv(chunk(rank - step), left)
        request.wait()
    tensor.copy_(flat.view(tensor.shape))
