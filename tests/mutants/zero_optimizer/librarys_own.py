"""Uses the library's ZeroRedundancyOptimizer.

check: same
kind: forbidden_call
"""

from torch.distributed.optim import ZeroRedundancyOptimizer


class ZeroOptimizer(ZeroRedundancyOptimizer):
    def __init__(self, params, optimizer_class, stage=1, **kwargs):
        super().__init__(params, optimizer_class, **kwargs)
