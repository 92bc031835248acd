"""Ends the process with SIGABRT.

family: early_exits
tries: points
earned: 0
ends: crash, left_early
uses: won
"""

def ring_all_reduce(tensor):
    os.abort()
