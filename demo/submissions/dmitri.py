import torch
import torch.distributed as dist


def ring_all_reduce(tensor):
    n = dist.get_world_size()
    rank = dist.get_rank()
    if n == 1:
        return
    flat = tensor.reshape(-1).clone()
    chunks = flat.tensor_split(n)
    right = (rank + 1) % n
    left = (rank - 1) % n
    for step in range(n - 1):
        dist.send(chunks[(rank - step) % n], right)
        incoming = torch.empty_like(chunks[(rank - step - 1) % n])
        dist.recv(incoming, left)
        chunks[(rank - step - 1) % n].add_(incoming)
    for step in range(n - 1):
        dist.send(chunks[(rank + 1 - step) % n], right)
        dist.recv(chunks[(rank - step) % n], left)
    tensor.copy_(flat.view(tensor.shape))
