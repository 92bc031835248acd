"""step() is left empty.

check: same
kind: wrong_result
"""

class ZeroOptimizer:
    def __init__(self, params, optimizer_class, stage=1, **kwargs):
        self.inner = optimizer_class(params, **kwargs)
        self.param_groups = self.inner.param_groups
        self.add_param_group = self.inner.add_param_group
        self.zero_grad = self.inner.zero_grad

    def step(self):
        pass
