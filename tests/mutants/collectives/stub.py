"""Nothing is written yet.

check: broadcast
kind: crash
"""

import torch
import torch.distributed as dist


def broadcast(tensor, src):
    raise NotImplementedError()


def reduce(tensor, dst):
    raise NotImplementedError()


def scatter(chunks, src):
    raise NotImplementedError()


def gather(tensor, dst):
    raise NotImplementedError()


def all_gather(tensor):
    raise NotImplementedError()


def reduce_scatter(chunks):
    raise NotImplementedError()


def all_to_all(chunks):
    raise NotImplementedError()


def barrier():
    raise NotImplementedError()
