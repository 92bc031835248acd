"""Is what learners get.

check: broadcast
kind: crash
"""

import torch


class DistributedModel(torch.nn.Module):
    def __init__(self, module, bucket_bytes=25 * 2**20):
        super().__init__()
        self.module = module
        raise NotImplementedError()
