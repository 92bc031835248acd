"""It is no Python.
check: right
kind: syntax_error
"""


def process_all(items, fn, max_in_flight)
    return []
