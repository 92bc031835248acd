"""The grading service: whom notebooks ask for verdicts, so that nothing is decided in the learner's kernel.

    python -m grader.classroom.service

One JSON object a line on stdin, one line as the answer on stdout. Ends, with every process it started, at the end of
stdin, in the middle of a grading too: nobody is there any more to be told.
{"grade": exercise or function, "cells": texts, "seed"} -> a verdict as `Verdict.report_json` gives it;
{"play": function, "source", "ranks", "arguments", "engine", "network", "faults", "seed",
"machine" or none} -> what one run left
(see `_play`);
{"error": sentence} where a request cannot be served. Whoever asks may be hostile: requests are plain data, never code.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import traceback
from queue import SimpleQueue
from types import TracebackType
from typing import Any

import numpy as np

from grader import grading, registry
from grader.classroom import running
from grader.exercise import Exercise
from grader.ranks.engines import Engines
from grader.ranks.program import Limits, Run, Strided, outputs_text
from grader.sandbox.frames import Other
from grader.sandbox.warm import BoxFailed, Warm
from grader.submission import BadRequest, Cell, Submission, graded
from grader.verdict import Verdict

FILE = "your cell"
MOST_VALUES = 2**20  # of all tensors that one play() takes, or shows
DTYPES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex64",
          "complex128")  # fmt: skip


class Service:
    """Grades and plays, on engines of its own. Safe to use from several threads; close it."""

    def __init__(self, warm: Warm | None = None) -> None:
        self._lock = threading.Lock()
        self._engines = Engines(warm) if warm is not None else None

    @property
    def engines(self) -> Engines:
        with self._lock:
            self._engines = self._engines or Engines()
            return self._engines

    def warm_up(self) -> None:
        """Start the engines: they import torch in the background."""
        _ = self.engines

    def grade(self, name: str, submission: Submission, seed: int | None = None) -> Verdict:
        """The verdict for the exercise of that name, or that has a function so called. Raises BadRequest.

        What could not be graded because the box failed is graded once more, in a new one.
        """
        found = wanted(name)
        engines = self.engines
        verdict = grading.grade(found, submission, engines, seed)
        if any(check.status == "error" for check in verdict.checks):
            self._renew(engines)
            verdict = grading.grade(found, submission, self.engines, seed)
        return verdict

    def answer(self, request: Any, limits: Limits = running.LIMITS) -> str:
        """One line of JSON for one request. What it plays has these limits."""
        try:
            if not isinstance(request, dict):
                raise BadRequest("a request is a JSON object")
            if "grade" in request:
                return self.grade(_text(request, "grade"), submitted(request), _seed(request)).report_json()
            return json.dumps(_play(request, self, limits))
        except (BadRequest, BoxFailed) as error:
            return refusal(str(error))
        except Exception as error:  # whatever a request brought about: the next one is served
            place = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{os.path.basename(place.filename)}, line {place.lineno}"
            return refusal(f"this request failed ({type(error).__name__}: {error}; {where})")

    def _renew(self, broken: Engines) -> None:
        with self._lock:
            if self._engines is broken:
                self._engines = None
                broken.close()

    def close(self) -> None:
        """End every process that was started."""
        with self._lock:
            if self._engines is not None:
                self._engines.close()
            self._engines = None

    def __enter__(self) -> Service:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()


def wanted(name: str) -> Exercise:
    """The exercise of that name, or else the one that has a function so called. Raises BadRequest."""
    try:
        return registry.find(name)  # imports no other
    except BadRequest:
        return registry.owner(name)


def submitted(request: dict[str, Any]) -> Submission:
    """What is to be graded, by a request to grade. Raises BadRequest."""
    texts = request.get("cells")
    if not isinstance(texts, list) or not texts or not all(isinstance(text, str) for text in texts):
        raise BadRequest("cells must be a list of texts")
    names = wanted(_text(request, "grade")).function_names
    return Submission(graded([Cell("code", text) for text in texts], names)[0] or texts[-1], FILE)


def refusal(sentence: str) -> str:
    """The answer to a request that is not served."""
    return json.dumps({"error": sentence})


def answered(service: Service, line: str | bytes) -> str:
    """The answer to a line, whatever it is."""
    try:
        request = json.loads(line)
    except (ValueError, RecursionError):
        return refusal("a request is a JSON object")
    return service.answer(request)


def main(warm: Warm | None = None) -> int:
    """Serve requests until end of file, with a warm host or with one of its own."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whoever prints to stdout must not be taken for an answer
    lines: SimpleQueue[str] = SimpleQueue()
    with Service(warm) as service:
        service.warm_up()
        threading.Thread(target=_read, args=(lines,), daemon=True).start()
        while True:
            print(answered(service, lines.get()), file=answers, flush=True)


def _read(lines: SimpleQueue[str]) -> None:
    for line in sys.stdin:
        lines.put(line)
    os._exit(0)  # what runs below us sees our sockets close, and ends


def _text(request: dict[str, Any], name: str) -> str:
    value = request.get(name)
    if not isinstance(value, str):
        raise BadRequest(f"{name} must be a text")
    return value


def _seed(request: dict[str, Any]) -> int | None:
    seed = request.get("seed")
    if seed is not None and (not isinstance(seed, int) or not 0 <= seed < 2**63):
        raise BadRequest("a seed is a whole number from 0 to 2**63 - 1")
    return seed


def _play(request: dict[str, Any], service: Service, limits: Limits) -> dict[str, Any]:
    """One call of any function on so many ranks: ending, picture, and per rank what came back and what it sent."""
    arguments = None
    if request["arguments"] is not None:
        taken = _Values("takes")
        arguments = tuple(tuple(_argument(value, taken) for value in given) for given in request["arguments"])
    submission = Submission(_text(request, "source"), FILE)
    wanted = running.Wanted(
        submission, _text(request, "play"), int(request["ranks"]), arguments, request["engine"], request["network"],
        tuple(request["faults"]), _seed(request), limits, machine=str(request.get("machine", "")),
    )  # fmt: skip
    ran = running.run(service.engines, wanted)
    call, counts, shown = ran.call, ran.ranks(), _Values("shows")
    return {
        "ending": ran.run.ending,
        "message": ran.diagnoses[0].message if ran.diagnoses else "",
        "svg": ran.svg(),
        "engine": ran.engine,
        "seconds": ran.virtual_seconds,
        "returned": [_plain(value, shown) for value in call.returned] if call else None,
        "tensors": [[_plain(value, shown) for value in values] for values in call.arguments] if call else None,
        "output": outputs_text(ran.run) if _spoke(ran.run) else "",
        **{key: [count[key] for count in counts] for key in ("bytes_sent", "messages_sent", "rounds", "peak_bytes")},
    }


class _Values:
    """Counts the values of tensors: as JSON each takes many times the memory."""

    def __init__(self, verb: str) -> None:
        self.count, self.verb = 0, verb

    def add(self, values: int) -> None:
        self.count += values
        if self.count > MOST_VALUES:
            raise BadRequest(f"play() {self.verb} at most {MOST_VALUES:,} tensor values, over all ranks")


def _argument(value: Any, taken: _Values) -> Any:
    """An argument as the notebook sent it: a tensor as {"values", "dtype"}, or plain data."""
    if isinstance(value, dict) and set(value) == {"values", "dtype"}:
        if value["dtype"] not in DTYPES:
            raise BadRequest(f"play() takes tensors of dtype {', '.join(DTYPES)}, not {value['dtype']}")
        array = np.array(value["values"], value["dtype"])
        taken.add(array.size)
        return Strided.of(array)
    return [_argument(part, taken) for part in value] if isinstance(value, list) else value


def _spoke(run: Run) -> bool:
    return any(run.stdout) or any(run.stderr)


def _plain(value: Any, shown: _Values) -> Any:
    """A value that came out of the box, as JSON: tensors as nested lists."""
    if isinstance(value, Strided):
        view = value.view()
        shown.add(view.size)
        return view.tolist()
    if isinstance(value, list):
        return [_plain(part, shown) for part in value]
    if isinstance(value, dict):
        return {key: _plain(part, shown) for key, part in value.items()}
    return f"<{value.type_name}>" if isinstance(value, Other) else value


if __name__ == "__main__":
    sys.exit(main())
