"""Sends every parameter by itself when the backward pass is over.

check: overlap
kind: no_overlap
"""

import contextlib

import torch
import torch.distributed as dist


class DistributedModel(torch.nn.Module):
    def __init__(self, module, bucket_bytes=25 * 2**20):
        super().__init__()
        self.module = module
        with torch.no_grad():
            for tensor in (*module.parameters(), *module.buffers()):
                dist.broadcast(tensor, 0)

    def forward(self, x):
        return self.module(x)

    def finish_gradient_sync(self):
        for parameter in self.module.parameters():
            if parameter.requires_grad:
                dist.all_reduce(parameter.grad)
                parameter.grad /= dist.get_world_size()

    def no_sync(self):
        return contextlib.nullcontext()
