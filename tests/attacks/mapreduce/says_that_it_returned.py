"""Writes to the driver's channel that run() returned, before it is called.

family: forged_frames
tries: points
earned: 0
ends: wrong_result, sandbox_violation, crash
"""

import os
import sys

from grader.sandbox import frames


def run(map_fn, reduce_fn, inputs, workers, reducers, combine_fn=None):
    os.write(3, frames.pack_message({"event": "returned", "type": "dict", "items": [[{"$dict": {}}, 1], [[[]], 2]]}))
    os._exit(0)
