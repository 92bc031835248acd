"""A process that runs the learner's program against the Ray of its box: it makes the calls it is told to, by way of
the exercise's harness, and decides nothing."""

from __future__ import annotations

import sys
import types
from typing import Any

from grader.sandbox import frames, program

HARNESS = "<harness>"


def drive(channel: frames.Channel, asked: dict[str, Any], address: str) -> None:
    """Load the program and call what it is told to; both of it is pickled by value, for workers do not have it."""
    import ray
    from ray import cloudpickle

    source, file = asked["source"], asked["file"]
    stage = "compile"
    try:
        code = compile(source, file, "exec", dont_inherit=True)
        ray.init(address=address, log_to_driver=False, logging_level="error")
        submission = program.module(source, file)
        harness = program.module(asked["harness"], HARNESS, "harness")
        for module in (submission, harness):
            cloudpickle.register_pickle_by_value(module)
        stage = "load"
        exec(code, submission.__dict__)  # the learner's code: this process is its box
        stage = "harness"
        exec(compile(asked["harness"], HARNESS, "exec", dont_inherit=True), harness.__dict__)
    except BaseException as error:
        channel.post(program.raised(error, file, stage))
        return
    missing = [name for name in asked["functions"] if not hasattr(submission, name)]
    channel.post({"event": "loaded", "missing": missing, "job": ray.get_runtime_context().get_job_id()})
    while (message := channel.next()) is not None:
        _call(channel, harness, submission, message.header, file)
    ray.shutdown()


def _call(
    channel: frames.Channel, harness: types.ModuleType, submission: types.ModuleType, asked: dict[str, Any], file: str
) -> None:
    try:
        value = getattr(harness, asked["by"])(getattr(submission, asked["function"]), *asked["arguments"])
    except BaseException as error:
        channel.post(program.raised(error, file, "call"))
        return
    sys.stdout.flush()
    tree, _ = frames.encode(value, lambda _: None)
    channel.post({"event": "returned", "value": tree})
