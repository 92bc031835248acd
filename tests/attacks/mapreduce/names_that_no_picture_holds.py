"""Submits a function whose name XML does not have, by frames of its own.

family: injection
tries: harm
earned: 0
ends: wrong_result, crash, sandbox_violation, deadlock
"""

import os

from grader.sandbox import frames


def run(map_fn, reduce_fn, inputs, workers, reducers, combine_fn=None):
    for name in ("a\x00b", "<svg onload='x'>", "\ud800", "x" * 10**6):
        os.write(3, frames.pack_message({"event": "submit", "function": name, "line": 10**30}, b"x"))
    for _ in range(4):
        workers.wait_any(5)
    return {}
