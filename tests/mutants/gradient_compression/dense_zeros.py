"""Sends the whole gradient with zeros where nothing was selected.

check: bytes
kind: too_many_bytes
only: yes
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
        dist.all_reduce(mean)
        return (mean / n).view(grad.shape)
