"""Raises on every rank what a rank raises whose peer is gone: as if somebody else were to blame.

family: early_exits
tries: points
earned: 0
ends: crash, left_early, deadlock
uses: won
"""

def ring_all_reduce(tensor):
    raise RuntimeError("Connection closed by peer: rank 7 is gone")
