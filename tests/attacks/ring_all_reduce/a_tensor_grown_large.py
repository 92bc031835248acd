"""Puts a gigabyte of memory behind the tensor that it was given: all of a tensor's storage is sent home.

family: bombs
tries: harm
earned: 0
ends: any
uses: won
"""

import torch


def ring_all_reduce(tensor):
    large = torch.zeros(1 << 27, dtype=torch.float64)
    tensor.untyped_storage().resize_(1 << 28)
    return [large.view(-1)[i:] for i in range(4)]
