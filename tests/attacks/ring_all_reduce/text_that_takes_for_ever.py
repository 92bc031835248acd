"""Raises an exception whose text takes for ever to make.

family: early_exits
tries: points
earned: 0
heavy: yes
ends: timeout, crash
uses: won
"""

class Endless(Exception):
    def __str__(self):
        while True:
            pass

    __repr__ = __str__


def ring_all_reduce(tensor):
    raise Endless
