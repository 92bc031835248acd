"""The released cell: it does nothing.

check: gpipe
kind: wrong_result
"""

def run_gpipe(stage, inputs, targets, loss_fn, micro_batches):
    pass


def run_1f1b(stage, inputs, targets, loss_fn, micro_batches):
    pass
