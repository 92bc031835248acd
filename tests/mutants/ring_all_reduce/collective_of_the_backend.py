"""Calls allreduce of the gloo backend object itself.

check: sum
kind: forbidden_call
"""

import torch
import torch.distributed as dist


def ring_all_reduce(tensor):
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    flat = tensor.contiguous()
    backend.allreduce([flat]).wait()
    if not tensor.is_contiguous():
        tensor.copy_(flat)
