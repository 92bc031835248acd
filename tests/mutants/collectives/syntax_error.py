"""A colon is missing.

check: broadcast
kind: syntax_error
"""

import torch.distributed as dist


def broadcast(tensor, src)
    pass
