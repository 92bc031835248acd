"""Calls its class by another name.

check: gradients
kind: missing_function
"""

import contextlib

import torch


class DataParallelModel(torch.nn.Module):
    def __init__(self, module, bucket_bytes=25 * 2**20):
        super().__init__()
        self.module = module

    def forward(self, x):
        return self.module(x)

    def finish_gradient_sync(self):
        pass

    def no_sync(self):
        return contextlib.nullcontext()
