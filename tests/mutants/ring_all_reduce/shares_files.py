"""Exchanges the tensors through files in the working folder, without a single message.

check: large
heavy: yes
kind: timeout or too_few_bytes
"""

import os
import time

import numpy as np
import torch
import torch.distributed as dist


calls = 0


def ring_all_reduce(tensor):
    global calls
    n, rank = dist.get_world_size(), dist.get_rank()
    calls += 1
    np.save(f"{n}-{calls}-{rank}.tmp.npy", tensor.numpy())
    os.rename(f"{n}-{calls}-{rank}.tmp.npy", f"{n}-{calls}-{rank}.npy")
    total = torch.zeros_like(tensor)
    for other in range(n):
        while not os.path.exists(f"{n}-{calls}-{other}.npy"):
            time.sleep(0.001)
        total += torch.from_numpy(np.load(f"{n}-{calls}-{other}.npy"))
    tensor.copy_(total)
