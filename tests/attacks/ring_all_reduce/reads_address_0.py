"""Reads the memory at address 0.

family: early_exits
tries: points
earned: 0
ends: crash, left_early
uses: won
"""

def ring_all_reduce(tensor):
    ctypes.string_at(0)
