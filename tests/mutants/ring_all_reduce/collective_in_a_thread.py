"""Leaves the job to dist.all_reduce in a thread of a pool, which keeps the exception to itself.

check: sum
kind: forbidden_call
"""

from concurrent.futures import ThreadPoolExecutor

import torch
import torch.distributed as dist


def work(tensor):
    flat = tensor.contiguous()
    dist.all_reduce(flat)
    tensor.copy_(flat)


def ring_all_reduce(tensor):
    with ThreadPoolExecutor(1) as pool:
        pool.submit(work, tensor)
