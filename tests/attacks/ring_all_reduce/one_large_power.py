"""Computes a power with millions of digits, in one step of Python: no signal handler runs meanwhile.

family: bombs
tries: harm
earned: 0
ends: timeout, missing_function, crash
uses: won
"""

def ring_all_reduce(tensor):
    return str(9 ** (9**9 // 4))
