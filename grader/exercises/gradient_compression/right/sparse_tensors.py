"""Right: one all-gather of bytes, sparse tensors that are added up, and gradients divided before they are kept."""

import torch
import torch.distributed as dist


class Residual:
    def __init__(self, grad):
        self.kept = torch.zeros(grad.shape).flatten()

    def take(self, grad, ratio):
        self.kept = self.kept + grad.contiguous().view(-1) / dist.get_world_size()
        k = max(int(ratio * self.kept.numel()), 1)
        _, where = torch.topk(torch.abs(self.kept), k, sorted=False)
        what = torch.gather(self.kept, 0, where)
        self.kept = self.kept.scatter(0, where, 0.0)
        return where, what


class TopKAllReduce:
    def __init__(self, ratio):
        self.ratio = ratio
        self.residuals = {}

    @torch.no_grad()
    def __call__(self, name, grad):
        if name not in self.residuals:
            self.residuals[name] = Residual(grad)
        where, what = self.residuals[name].take(grad, self.ratio)
        message = torch.cat([where.to(torch.int32).view(torch.uint8), what.view(torch.uint8)])
        everything = torch.empty(dist.get_world_size() * len(message), dtype=torch.uint8)
        dist.all_gather_into_tensor(everything, message)
        total = torch.sparse_coo_tensor(torch.empty(1, 0, dtype=torch.int64), torch.empty(0), (grad.numel(),))
        for theirs in everything.view(dist.get_world_size(), -1):
            places, values = theirs.clone().tensor_split(2)
            total = total + torch.sparse_coo_tensor(
                places.view(torch.int32).long()[None], values.view(torch.float32), (grad.numel(),)
            )
        return total.to_dense().view(grad.shape)
