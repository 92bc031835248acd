"""Allocates in tasks what all workers together may not.

family: bombs
tries: harm
earned: 0
ends: out_of_memory, deadlock, crash
"""

def hoard():
    held = [bytearray(2**27) for _ in range(16)]
    for part in held:
        part[::4096] = b"x" * len(part[::4096])
    while True:
        pass


def run(map_fn, reduce_fn, inputs, workers, reducers, combine_fn=None):
    for _ in range(3):
        workers.submit(hoard)
    while True:
        workers.wait_any()
