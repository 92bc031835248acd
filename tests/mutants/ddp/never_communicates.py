"""Every rank trains by itself, as if its data were all there is.

check: gradients
kind: wrong_result
"""

import contextlib

import torch


class DistributedModel(torch.nn.Module):
    def __init__(self, module, bucket_bytes=25 * 2**20):
        super().__init__()
        self.module = module

    def forward(self, x):
        return self.module(x)

    def finish_gradient_sync(self):
        pass

    def no_sync(self):
        return contextlib.nullcontext()
