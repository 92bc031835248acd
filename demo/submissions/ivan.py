import torch
import torch.distributed as dist


def ring_all_reduce(tensor):
    n, rank = dist.get_world_size(), dist.get_rank()
    flat = tensor.reshape(-1).clone()
    chunks = flat.tensor_split(n)
    right, left = (rank + 1) % n, (rank - 1) % n
    done = [rank]
    while len(done) < n + 1:
        index = done[-1]
        if (index - 1) % n in done:
            continue
        request = dist.isend(chunks[index], right)
        incoming = torch.empty_like(chunks[(index - 1) % n])
        dist.recv(incoming, left)
        request.wait()
        chunks[(index - 1) % n].add_(incoming)
        done.append((index - 1) % n)
    tensor.copy_(flat.view(tensor.shape))
