"""Loops for ever without a call.

family: bombs
tries: harm
earned: 0
ends: timeout
uses: won
"""

def ring_all_reduce(tensor):
    while True:
        pass
