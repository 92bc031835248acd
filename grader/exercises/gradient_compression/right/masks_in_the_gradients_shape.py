"""Right: masks of the gradient's shape, a direct exchange between all pairs, and sums in float64."""

import torch
import torch.distributed as dist


class TopKAllReduce:
    def __init__(self, ratio):
        self.ratio, self.unsent = ratio, {}

    def __call__(self, name, grad):
        size, me = dist.get_world_size(), dist.get_rank()
        corrected = grad + self.unsent.get(name, torch.zeros_like(grad))
        k = max(1, int(self.ratio * grad.numel()))
        mask = torch.zeros(grad.numel(), dtype=torch.bool)
        mask[corrected.abs().reshape(-1).topk(k).indices] = True
        mask = mask.view(grad.shape)
        self.unsent[name] = torch.where(mask, torch.zeros_like(corrected), corrected)
        values = corrected[mask]
        places = mask.reshape(-1).nonzero().reshape(-1).int()
        others = [rank for rank in range(size) if rank != me]
        came = {me: (values, places)}
        requests = []
        for other in others:
            came[other] = torch.empty(k), torch.empty(k, dtype=torch.int32)
            requests += [dist.irecv(came[other][0], other, tag=1), dist.irecv(came[other][1], other, tag=2)]
        for other in others:
            requests += [dist.isend(values, other, tag=1), dist.isend(places, other, tag=2)]
        for request in requests:
            request.wait()
        total = torch.zeros(grad.numel(), dtype=torch.float64)
        for rank in range(size):
            total.index_put_((came[rank][1].long(),), came[rank][0].double(), accumulate=True)
        grad.copy_(total.float().view(grad.shape) / size)
        return grad
