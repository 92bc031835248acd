"""Starts three thousand threads that wait.

family: bombs
tries: harm
earned: 0
ends: any
uses: won
"""

import threading


def ring_all_reduce(tensor):
    never = threading.Event()
    for _ in range(3000):
        threading.Thread(target=never.wait, daemon=True).start()
    won("three thousand threads")
