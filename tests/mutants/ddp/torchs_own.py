"""Wraps the module in PyTorch's own class for the whole job.

check: gradients
kind: forbidden_call
"""

import contextlib

import torch
from torch.nn.parallel import DistributedDataParallel


class DistributedModel(torch.nn.Module):
    def __init__(self, module, bucket_bytes=25 * 2**20):
        super().__init__()
        self.module = DistributedDataParallel(module, bucket_cap_mb=bucket_bytes / 2**20)

    def forward(self, x):
        return self.module(x)

    def finish_gradient_sync(self):
        pass

    def no_sync(self):
        return self.module.no_sync()
