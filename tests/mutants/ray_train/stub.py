"""Nothing is there yet.
check: trains
kind: crash
"""


def train(config):
    raise NotImplementedError
