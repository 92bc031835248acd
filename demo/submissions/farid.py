import torch
import torch.distributed as dist


def ring_all_reduce(tensor):
    n, rank = dist.get_world_size(), dist.get_rank()
    flat = tensor.reshape(-1).clone()
    chunks = flat.tensor_split(n)
    right, left = (rank + 1) % n, (rank - 1) % n
    for step in range(n - 1):
        out = chunks[(rank - step) % n]
        acc = chunks[(rank - step - 1) % n]
        request = dist.isend(out, right)
        incoming = torch.empty_like(acc)
        dist.recv(incoming, left)
        request.wait()
        acc += incoming
    for step in range(n - 1):
        # every rank passes on the chunk with its own number
        request = dist.isend(chunks[(rank - step) % n], right)
        incoming = torch.empty_like(chunks[(rank - step - 1) % n])
        dist.recv(incoming, left)
        request.wait()
        chunks[(rank - step - 1) % n].copy_(incoming)
    tensor.copy_(flat.view(tensor.shape))
