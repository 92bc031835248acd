"""Exchanges the tensors through the group's key-value store, without a single message.

check: large
kind: too_few_bytes or sandbox_violation
"""

import pickle

import torch
import torch.distributed as dist


calls = 0


def ring_all_reduce(tensor):
    global calls
    n, rank = dist.get_world_size(), dist.get_rank()
    calls += 1
    store = dist.distributed_c10d._get_default_store()
    store.set(f"{calls}/{rank}", pickle.dumps(tensor.clone()))
    tensor.copy_(sum(pickle.loads(store.get(f"{calls}/{other}")) for other in range(n)))
