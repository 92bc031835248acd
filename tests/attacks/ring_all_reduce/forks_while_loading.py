"""Forks while it is being imported; parent and child both go on, with one channel for the two.

family: while_loading
tries: harm
earned: 0
heavy: yes
ends: any
uses: won
"""

os.fork()


def ring_all_reduce(tensor):
    pass
