"""The released stub, as it is before anybody has written anything.

check: skips
kind: crash
"""


class LossScaler:
    def __init__(self, init_scale=2**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000):
        raise NotImplementedError()
