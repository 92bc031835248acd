"""Nothing is done yet.

check: exact
kind: wrong_result
"""


def mix(parameters, neighbours, weights):
    pass


def local_sgd(model, steps, period, elastic=None):
    pass
