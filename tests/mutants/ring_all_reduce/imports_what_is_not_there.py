"""Imports a module that is not installed.

check: sum
kind: crash
"""

import horovod.torch as horovod
import torch
import torch.distributed as dist


def ring_all_reduce(tensor):
    horovod.allreduce_(tensor, op=horovod.Sum)
