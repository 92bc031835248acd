"""Where processes in the box say what they are about to do, and wait for what the grading process makes of it.

Used by harnesses, in drivers and in Ray's workers; the supervisor is at the other end, and passes it on.
"""

from __future__ import annotations

import os
import socket
from typing import Any

from grader.sandbox import frames

PATH = "RANKUP_RENDEZVOUS"  # the environment variable that says where it is


def tell(**said: Any) -> Any:
    """Say something, as plain JSON, and wait for the answer. Raises ConnectionError where nobody grades any more."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as end:
        end.connect(os.environ[PATH])
        channel = frames.Channel(end)
        channel.post(said)
        answer = channel.next()
    if answer is None:
        raise ConnectionError("the grading has ended")
    return answer.header.get("answer")
