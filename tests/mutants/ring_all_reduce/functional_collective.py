"""Calls the functional all_reduce, which does not go through dist.all_reduce.

check: sum
kind: forbidden_call
"""

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol


def ring_all_reduce(tensor):
    tensor.copy_(funcol.all_reduce(tensor.contiguous(), "sum", dist.group.WORLD))
