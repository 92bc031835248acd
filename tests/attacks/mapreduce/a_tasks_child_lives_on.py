"""Leaves a process behind in every task.

family: persistence
tries: harm
earned: 0
ends: wrong_result, sandbox_violation, timeout, crash, deadlock
"""

import os
import time


def leave_a_child():
    if os.fork() == 0:
        os.setsid()
        time.sleep(3600)


def run(map_fn, reduce_fn, inputs, workers, reducers, combine_fn=None):
    for _ in range(4):
        workers.submit(leave_a_child)
        workers.wait_any()
    return {}
