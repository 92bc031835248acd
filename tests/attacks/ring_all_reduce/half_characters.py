"""Raises an exception whose text is half of a character, and prints it: not all text can be written to a file.

family: early_exits
tries: points
earned: 0
ends: crash, left_early, sandbox_violation
uses: won
"""

def ring_all_reduce(tensor):
    print("before \ud800 after")
    raise ValueError("before \udfff after")
