"""The grading service: a process that notebooks ask for verdicts, so that nothing is decided in the learner's kernel.

    python -m grader.classroom.service

One JSON object a line on stdin, one on stdout; ends, with every process it started, at end of file.
{"grade": exercise or function, "source", "file", "seed"} -> a verdict as `Verdict.report_json` gives it;
{"play": function, "source", "file", "ranks", "arguments", "engine", "network", "faults", "seed"} -> what one run left
(see `_play`);
{"error": sentence} where a request cannot be served.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np

from grader import exercise
from grader.classroom import running
from grader.ranks.engines import Engines
from grader.ranks.processes import BoxFailed
from grader.ranks.program import Run, Strided, outputs_text
from grader.sandbox.frames import Other
from grader.submission import BadRequest, Submission


def main() -> None:
    """Serve requests until end of file."""
    engines = Engines()
    try:
        for line in sys.stdin:
            try:
                answer = _answer(json.loads(line), engines)
            except (BadRequest, BoxFailed, KeyError, ValueError) as error:
                answer = json.dumps({"error": f"{error}"})
            print(answer, flush=True)
    finally:
        engines.close()


def _answer(request: dict[str, Any], engines: Engines) -> str:
    submission = Submission(request["source"], request["file"])
    if "grade" in request:
        return exercise.grade(exercise.owner(request["grade"]), submission, engines, request["seed"]).report_json()
    return json.dumps(_play(request, submission, engines))


def _play(request: dict[str, Any], submission: Submission, engines: Engines) -> dict[str, Any]:
    """One call of any function on so many ranks: ending, picture, and per rank what came back and what it sent."""
    arguments = None
    if request["arguments"] is not None:
        arguments = tuple(tuple(_argument(value) for value in given) for given in request["arguments"])
    ran = running.run(
        engines,
        running.Wanted(
            submission, request["play"], int(request["ranks"]), arguments, request["engine"], request["network"],
            tuple(request["faults"]), request["seed"],
        ),
    )  # fmt: skip
    call, counts = ran.call, ran.ranks()
    return {
        "ending": ran.run.ending,
        "message": ran.diagnoses[0].message if ran.diagnoses else "",
        "svg": ran.svg(),
        "engine": ran.engine,
        "seconds": ran.virtual_seconds,
        "returned": [_plain(value) for value in call.returned] if call else None,
        "tensors": [[_plain(value) for value in values] for values in call.arguments] if call else None,
        "output": outputs_text(ran.run) if _spoke(ran.run) else "",
        **{key: [count[key] for count in counts] for key in ("bytes_sent", "messages_sent", "rounds", "peak_bytes")},
    }


def _argument(value: Any) -> Any:
    """An argument as the notebook sent it: a tensor as {"values", "dtype"}, or plain data."""
    if isinstance(value, dict) and set(value) == {"values", "dtype"}:
        return Strided.of(np.array(value["values"], value["dtype"]))
    return [_argument(part) for part in value] if isinstance(value, list) else value


def _spoke(run: Run) -> bool:
    return any(run.stdout) or any(run.stderr)


def _plain(value: Any) -> Any:
    """A value that came out of the box, as JSON: tensors as nested lists."""
    if isinstance(value, Strided):
        return value.view().tolist()
    if isinstance(value, list):
        return [_plain(part) for part in value]
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    return f"<{value.type_name}>" if isinstance(value, Other) else value


if __name__ == "__main__":
    main()
