"""The grading service: a process that notebooks ask for verdicts, so that nothing is decided in the learner's kernel.

    python -m grader.classroom.service

One JSON object a line on stdin, one on stdout; ends, with every process it started, at end of file.
{"grade": exercise or function, "source", "file", "seed"} -> a verdict as `Verdict.report_json` gives it;
{"play": function, "source", "file", "ranks", "tensors", "seed"} -> what one run left (see `_play`);
{"error": sentence} where a request cannot be served.
"""

from __future__ import annotations

import json
import random
import sys
from typing import Any

import numpy as np

from grader import exercise
from grader.ranks.engines import Engines
from grader.ranks.processes import BoxFailed, Processes
from grader.ranks.program import Call, Program, Run, Strided, outputs_text
from grader.sandbox.frames import Other
from grader.submission import BadRequest, Submission
from grader.trace import diagram
from grader.trace.replay import rounds


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
    return json.dumps(_play(request, submission, engines.gloo))


def _play(request: dict[str, Any], submission: Submission, engine: Processes) -> dict[str, Any]:
    """One call of any function on so many ranks: ending, picture, and per rank what came back and what it sent."""
    ranks = int(request["ranks"])
    arguments: list[tuple[Strided, ...]] = [()] * ranks
    if request["tensors"] is not None:
        arguments = [(Strided.of(np.array(t["values"], t["dtype"])),) for t in request["tensors"]]
    program = Program.of(submission.source, submission.name, request["play"])
    seed = request["seed"] if request["seed"] is not None else random.SystemRandom().randrange(2**31)
    run = engine.run(program, ranks, [Call(tuple(arguments))], seed)
    title = f"{request['play']} on {ranks} ranks: {run.ending.replace('_', ' ')}"
    call = run.calls[0] if run.calls else None
    taken = rounds(run.trace)
    return {
        "ending": run.ending,
        "message": run.diagnoses[0].message if run.diagnoses else "",
        "svg": diagram.svg(run.trace, title, "", run.cycle, dict(run.marks)),
        "returned": [_plain(value) for value in call.returned] if call else None,
        "tensors": [[_plain(value) for value in values] for values in call.arguments] if call else None,
        "bytes_sent": [run.trace.bytes_sent(rank) for rank in range(ranks)],
        "messages_sent": [run.trace.messages_sent(rank) for rank in range(ranks)],
        "rounds": [None if r == float("inf") else r for r in taken],
        "output": outputs_text(run) if _spoke(run) else "",
    }


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
