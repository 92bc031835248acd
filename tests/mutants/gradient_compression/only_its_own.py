"""Sends nothing and divides its own selection by the ranks.

check: bytes
kind: too_few_bytes
"""

import torch
import torch.distributed as dist


class TopKAllReduce:
    def __init__(self, ratio):
        self.ratio = ratio
        self.residuals = {}

    def __call__(self, name, grad):
        n = dist.get_world_size()
        total = grad.reshape(-1).clone()
        if name in self.residuals:
            total += self.residuals[name]
        k = max(1, int(self.ratio * total.numel()))
        places = total.abs().topk(k).indices
        values = total[places]
        total[places] = 0.0
        self.residuals[name] = total
        mean = torch.zeros_like(total)
        mean[places] = values
        return (mean / n).view(grad.shape)
