import torch
import torch.distributed as dist


def ring_all_reduce(tensor):
    n, rank = dist.get_world_size(), dist.get_rank()
    flat = tensor.reshape(-1).clone()
    chunks = flat.tensor_split(n)
    right, left = (rank + 1) % n, rank - 1
    for step in range(n - 1):
        request = dist.isend(chunks[(rank - step) % n], right)
        incoming = torch.empty_like(chunks[(rank - step - 1) % n])
        dist.recv(incoming, left)
        request.wait()
        chunks[(rank - step - 1) % n].add_(incoming)
    for step in range(n - 1):
        request = dist.isend(chunks[(rank + 1 - step) % n], right)
        dist.recv(chunks[(rank - step) % n], left)
        request.wait()
    tensor.copy_(flat.view(tensor.shape))
