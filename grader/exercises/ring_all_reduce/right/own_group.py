"""Makes a process group of its own and posts with P2POp on it."""

import torch
import torch.distributed as dist


_group = None


def ring_all_reduce(tensor):
    global _group
    if _group is None:
        _group = dist.new_group(range(dist.get_world_size()))
    n, rank = dist.get_world_size(_group), dist.get_rank(_group)
    flat = tensor.contiguous().view(-1)
    chunks = flat.tensor_split(n)

    def exchange(outgoing, incoming):
        send = dist.P2POp(dist.isend, outgoing, (rank + 1) % n, _group)
        receive = dist.P2POp(dist.irecv, incoming, (rank - 1) % n, _group)
        for request in dist.batch_isend_irecv([send, receive]):
            request.wait()

    for step in range(n - 1):
        own = chunks[(rank - step - 1) % n]
        incoming = torch.empty_like(own)
        exchange(chunks[(rank - step) % n], incoming)
        own += incoming
    for step in range(n - 1):
        exchange(chunks[(rank + 1 - step) % n], chunks[(rank - step) % n])
    if not tensor.is_contiguous():
        tensor.copy_(flat.view(tensor.shape))
