"""Searches for a pattern that takes longer than the universe has.

family: bombs
tries: harm
earned: 0
ends: timeout
uses: won
"""

import re


def ring_all_reduce(tensor):
    re.match(r"(a+)+$", "a" * 64 + "b")
