"""Prints three megabytes in a task.

family: bombs
tries: harm
earned: 0
ends: sandbox_violation
"""

def shout():
    print("x" * 3_000_000, flush=True)


def run(map_fn, reduce_fn, inputs, workers, reducers, combine_fn=None):
    while True:
        workers.submit(shout)
        workers.wait_any()
