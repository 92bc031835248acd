"""Calls dist.all_reduce.

check: sum
kind: forbidden_call
"""

import torch
import torch.distributed as dist


def ring_all_reduce(tensor):
    dist.all_reduce(tensor, op=dist.ReduceOp.SUM)
