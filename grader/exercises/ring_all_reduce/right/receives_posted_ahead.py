"""Every receive of the whole algorithm is posted before the first send."""

import torch
import torch.distributed as dist


def ring_all_reduce(tensor):
    n, rank = dist.get_world_size(), dist.get_rank()
    right, left = (rank + 1) % n, (rank - 1) % n
    flat = tensor.contiguous().view(-1)
    chunks = flat.tensor_split(n)
    partial = [torch.empty_like(chunks[(rank - step - 1) % n]) for step in range(n - 1)]
    finished = [torch.empty_like(chunks[(rank - step) % n]) for step in range(n - 1)]
    requests = [dist.irecv(buffer, left) for buffer in partial + finished]
    sends = []
    outgoing = chunks[rank]
    for step in range(n - 1):
        sends.append(dist.isend(outgoing, right))
        requests[step].wait()
        outgoing = partial[step].add_(chunks[(rank - step - 1) % n])
    result = {(rank + 1) % n: outgoing}
    for step in range(n - 1):
        sends.append(dist.isend(outgoing, right))
        requests[n - 1 + step].wait()
        outgoing = result[(rank - step) % n] = finished[step]
    for send in sends:
        send.wait()
    tensor.copy_(torch.cat([result[i] for i in range(n)]).view(tensor.shape))
