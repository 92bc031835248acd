import sys
import warnings

import torch
import torch.distributed as dist

warnings.warn("my own library is deprecated", DeprecationWarning)
warnings.warn("loading without a GPU, this will be slow")
print("ring_all_reduce v3 loaded", file=sys.stderr)


def exchange(outgoing, incoming, right, left):
    operations = [dist.P2POp(dist.isend, outgoing, right), dist.P2POp(dist.irecv, incoming, left)]
    for request in dist.batch_isend_irecv(operations):
        request.wait()


def ring_all_reduce(tensor):
    n, me = dist.get_world_size(), dist.get_rank()
    right, left = (me + 1) % n, (me - 1) % n
    work = tensor.contiguous().flatten()
    parts = work.tensor_split(n)
    inbox = torch.empty_like(parts[0])
    for k in range(n - 1):
        print(f"rank {me}: reduce step {k}", file=sys.stderr)
        mine = parts[(me - k - 1) % n]
        arrived = inbox[: len(mine)]
        exchange(parts[(me - k) % n], arrived, right, left)
        mine.add_(arrived)
    for k in range(n - 1):
        exchange(parts[(me - k + 1) % n], parts[(me - k) % n], right, left)
    tensor.copy_(work.view_as(tensor))
