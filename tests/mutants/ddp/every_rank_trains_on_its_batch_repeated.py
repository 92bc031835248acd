"""Every rank trains on its batch N times over, takes that for the data of all, and never communicates.

check: bytes
kind: too_few_bytes
"""

import contextlib

import torch
import torch.distributed as dist


class DistributedModel(torch.nn.Module):
    def __init__(self, module, bucket_bytes=25 * 2**20):
        super().__init__()
        self.module = module

    def forward(self, x):
        return self.module(x.repeat(dist.get_world_size(), 1))[: len(x)]

    def finish_gradient_sync(self):
        pass

    def no_sync(self):
        return contextlib.nullcontext()
