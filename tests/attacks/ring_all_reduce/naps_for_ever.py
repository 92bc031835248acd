"""Sleeps and computes a little in turns, so that it never stands still and never uses up its processor time.

family: bombs
tries: harm
earned: 0
ends: timeout
uses: won
"""

import select


def ring_all_reduce(tensor):
    while True:
        select.select([], [], [], 0.4)
        sum(range(300_000))
