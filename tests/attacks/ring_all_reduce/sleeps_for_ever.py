"""Waits for ever, in a call of the kernel's, and computes nothing.

family: bombs
tries: harm
earned: 0
ends: timeout
uses: won
"""

import select


def ring_all_reduce(tensor):
    select.select([], [], [])
