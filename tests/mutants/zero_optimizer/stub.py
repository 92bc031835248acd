"""Nothing is written yet.

check: same
kind: crash
"""

class ZeroOptimizer:
    def __init__(self, params, optimizer_class, stage=1, **kwargs):
        raise NotImplementedError()
