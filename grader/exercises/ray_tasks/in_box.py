"""Calls a learner's process_all and Counter. What fn returns is asked at the gate, where it also waits; it decides
nothing."""

from __future__ import annotations

import os
import tempfile
import time
from typing import Any

import ray
from ray.exceptions import ActorDiedError, ActorUnavailableError

from grader.jobs.rays.rendezvous import tell

PATIENCE_SECONDS = 30.0
AGAIN_SECONDS = 0.1


class Captured:
    """What fn has with it. Tells each time that it is serialised, and for which call."""

    def __init__(self, data: bytes, call: int) -> None:
        self.data, self.call = data, call

    def __reduce__(self) -> tuple[type[Captured], tuple[bytes, int]]:
        tell(what="serialised", call=self.call)
        return Captured, (self.data, self.call)


def process(process_all: Any, items: list[Any], limit: int, captured: int, call: int) -> list[Any]:
    """What process_all returns: the name of its type, and its values where it is a list. Every call has its number."""
    large = Captured(bytes(captured), call)

    def fn(item: Any) -> Any:
        task = ray.get_runtime_context().get_task_id() if len(large.data) == captured else ""
        return tell(what="begin", call=call, item=item, task=task)

    result = process_all(list(items), fn, limit)
    return [type(result).__name__, result if isinstance(result, list) else None]


def count(counter: Any, steps: list[list[Any]]) -> dict[str, Any]:
    """What counters answer to increment and value, and the step at which one was dead for good, or had left no file. A
    step is what is done, with which counter, and with what; counters of the same first letter have the same file, and
    "move" gives the file of one letter to another."""
    folder, made, answers = tempfile.mkdtemp(), {}, []
    for number, (what, name, given) in enumerate(steps):
        try:
            if what == "make":
                made[name] = counter.remote(os.path.join(folder, name[0]))
            elif what == "increment":
                answers.append(_answer(made[name].increment, given, once=True))
            elif what == "value":
                answers.append(_answer(made[name].value, []))
            elif what == "kill":
                tell(what="kill")
            elif what == "drop":
                ray.kill(made.pop(name))
            elif what == "move":
                path = os.path.join(folder, name[0])
                if not os.path.exists(path):  # what a counter raises may be a FileNotFoundError, too
                    return {"answers": answers, "dead": None, "no_file": number}
                os.rename(path, os.path.join(folder, name[1]))
        except ActorDiedError:
            return {"answers": answers, "dead": number, "no_file": None}
    return {"answers": answers, "dead": None, "no_file": None}


def _answer(method: Any, given: list[Any], once: bool = False) -> Any:
    """What an actor answers. One that was killed is asked for its value until it is there again."""
    until = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return ray.get(method.remote(*given), timeout=PATIENCE_SECONDS)
        except ActorUnavailableError:
            if once or time.monotonic() > until:
                raise
            time.sleep(AGAIN_SECONDS)
