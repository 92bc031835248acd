"""Returns four million empty lists: little to send, and a gigabyte of objects for who reads it carelessly.

family: odd_objects
tries: harm
earned: 0
ends: any
"""

FOREST = [[] for _ in range(4_000_000)]


def send_time(bytes, alpha, beta):
    return FOREST


def amdahl(parallel_fraction, n):
    return [FOREST, FOREST]
