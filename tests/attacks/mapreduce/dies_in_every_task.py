"""Ends the worker's process in every task.

family: early_exits
tries: harm
earned: 0
ends: deadlock, wrong_result
"""

import os


def leave():
    os._exit(0)


def run(map_fn, reduce_fn, inputs, workers, reducers, combine_fn=None):
    while True:
        workers.submit(leave)
        workers.wait_any()
