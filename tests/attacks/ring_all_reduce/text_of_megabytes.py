"""Raises an exception whose text has fifty million characters, of a type whose name has five million.

family: early_exits
tries: points
earned: 0
heavy: yes
ends: crash, left_early, sandbox_violation
uses: won
"""

def ring_all_reduce(tensor):
    raise type("A" * 5_000_000, (Exception,), {})("spam " * 10_000_000)
