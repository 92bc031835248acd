"""Nothing is written yet.
check: right
kind: crash
"""


def process_all(items, fn, max_in_flight):
    raise NotImplementedError


class Counter:
    pass
