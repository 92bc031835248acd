"""check() and play(): what a notebook calls. They only ask the grading service and show what it says."""

from __future__ import annotations

import atexit
import contextlib
import inspect
import linecache
import os
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

from grader.classroom import lines, report
from grader.submission import BadRequest
from grader.trace import dark
from grader.verdict import CheckResult, Verdict

MIME = "application/vnd.rankup.checks+json"  # the checks as data, for programs that read a graded notebook
SERVICE = "RANKUP_SERVICE"  # the environment variable that names the grading service's socket


class CheckFailed(AssertionError):  # noqa: N818 - learners read the name
    """Points were lost, under `nbgrader validate`, which shows errors only."""

    def _render_traceback_(self) -> list[str]:
        """IPython: the sentence alone."""
        return [str(self)]


class Score(float):
    """Points as a number, which nbgrader puts in the gradebook; shows itself as the report with its pictures."""

    _html: str
    _checks: list[dict[str, Any]]

    @classmethod
    def of(cls, checks: Sequence[CheckResult], html: str) -> Score:
        score = cls(sum(check.points for check in checks))
        score._html, score._checks = html, [check.to_json() for check in checks]
        return score

    @property
    def text(self) -> str:
        """The sentences on what points were lost for."""
        return "\n".join(check["diagnosis"]["message"] for check in self._checks if check["diagnosis"])

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        return {"text/plain": repr(self), "text/html": self._html, MIME: self._checks}

    def __repr__(self) -> str:
        return repr(float(self))


def check(
    function: Callable[..., Any], name: str | None = None, seed: int | None = None, exercise: str | None = None
) -> Score:
    """Grade `function`, a learner's function for the exercise that asks for it: one check, or all of them.

    The cell (or file) that defines the function is what is graded, with those that define the exercise's others, in
    processes of its own and by the grading service: nothing is decided in this kernel. Returns the points; shown as
    the last value of a cell, it is the report.
    """
    asked = exercise or _exercise(function)
    verdict = _service().grade(asked, _sources(function), seed, fresh=name is None or seed is not None)
    if name is None:
        score = Score.of(verdict.checks, report.verdict_html(verdict))
    else:
        result = _named(verdict, name)
        score = Score.of([result], report.output_html(report.check_html(result)))
    if score.text and os.environ.get("NBGRADER_VALIDATING"):
        raise CheckFailed(score.text)
    return score


def _named(verdict: Verdict, name: str) -> CheckResult:
    try:
        return verdict.check(name)
    except KeyError:
        known = ", ".join(check.name for check in verdict.checks)
        raise BadRequest(f"{verdict.exercise} has no check {name!r}; it has {known}") from None


@dataclass(frozen=True)
class Played:
    """One run of a function: its ending, what each rank returned and sent, and its picture.

    `seconds` is the virtual time at which the last rank was done (None on real processes), `rounds` each rank's
    communication rounds, `peak_bytes` the most it held of tensors given to track(). On real processes bytes and
    messages that nobody counted are None.
    """

    ending: str
    message: str
    engine: str
    seconds: float | None
    returned: list[Any] | None
    tensors: list[list[Any]] | None
    bytes_sent: list[int | None]
    messages_sent: list[int | None]
    rounds: list[float | None]
    peak_bytes: list[int | None]
    output: str
    svg: str = field(repr=False)

    def _repr_html_(self) -> str:
        head = f"<p>{report._code(self.message)}</p>" if self.message else ""
        printed = f"<pre>{escape(self.output)}</pre>" if self.output else ""
        return report.output_html(f"<div>{head}{dark.framed(self.svg)}{printed}</div>")


def play(
    function: Callable[..., Any],
    ranks: int = 4,
    tensors: Callable[[int], Any] | None = None,
    seed: int | None = None,
    *,
    arguments: Callable[[int], Sequence[Any]] | None = None,
    engine: str = "auto",
    network: str = "",
    faults: Sequence[str] = (),
    machine: str = "",
) -> Played:
    """Run `function` on `ranks` ranks and draw what happened.

    `tensors(rank)` gives each rank's one argument (a tensor or array), `arguments(rank)` all of several; without either
    the function is called without any. `engine` is "sim" (simulated ranks, virtual time), "gloo" (real processes),
    "nccl" or "auto" (simulated, unless that cannot be). `network` and `faults` are what `rankup run` takes. On a
    `machine` ("8xh100" or "nvl72") matrix products take virtual time, too: 2 m n k FLOPs at the 600 or 1,500 TFLOP/s
    that the course assumes of a GPU (chapter 01); its network is the machine's. Raises BadRequest where that cannot be
    done.
    """
    given = None
    if tensors is not None or arguments is not None:
        each = arguments or (lambda rank: (tensors(rank),) if tensors is not None else ())
        given = [[_sendable(value) for value in each(rank)] for rank in range(ranks)]
    request = {"play": function.__name__, "source": _source(function), "ranks": ranks, "arguments": given,
               "engine": engine, "network": network, "faults": list(faults), "seed": seed,
               "machine": machine}  # fmt: skip
    return Played(**_service().ask(request))


def _sendable(value: Any) -> Any:
    """An argument as JSON: a tensor as {"values", "dtype"}, lists of them, or plain data."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return [_sendable(part) for part in value]
    import numpy as np

    array = np.asarray(value.detach().numpy() if hasattr(value, "detach") else value)
    return {"values": array.tolist(), "dtype": array.dtype.name}


def _exercise(function: Callable[..., Any]) -> str:
    name = getattr(function, "__name__", None)
    if not isinstance(name, str):
        raise BadRequest(f"check() takes the function you wrote, not {function!r}")
    return name


def _source(function: Callable[..., Any]) -> str:
    """The text of the cell or file that defines `function`, which may be a class."""
    made = vars(function).values() if isinstance(function, type) else [inspect.unwrap(function)]
    for each in made:
        code = getattr(getattr(each, "__func__", each), "__code__", None)  # of a classmethod its function's
        text = "".join(linecache.getlines(code.co_filename)) if code else ""
        if text and (not isinstance(function, type) or f"class {function.__name__}" in text):
            return text
    raise BadRequest("check() needs a function or a class that is defined in a notebook cell or a file")


def _sources(function: Callable[..., Any]) -> list[str]:
    """The texts of the notebook's cells (or of the file) that functions and classes come from as they are now, that of
    `function` among them, in the order in which they were run."""
    main = vars(sys.modules["__main__"])
    run = {text.strip(): number for number, text in enumerate(main.get("In", ()))}
    texts = {}
    for made in list(main.values()):
        if (inspect.isfunction(made) or inspect.isclass(made)) and made.__module__ == "__main__":
            with contextlib.suppress(BadRequest):  # made by a decorator, or without any text
                text = _source(made)
                texts[text] = run.get(text.strip(), -1)
    texts.setdefault(_source(function), len(run))
    return [text.removesuffix("\n") for text in sorted(texts, key=texts.__getitem__)]


def explain_missing_functions() -> None:
    """In IPython: where a graded cell fails because the solution's function does not exist, say why it does not.

    A solution cell with a syntax error, or one that raised half-way, defines nothing; all that `check(f)` would show is
    a NameError. The cell still fails, and so scores nothing.
    """
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if shell is not None:
        shell.set_custom_exc((NameError,), _on_name_error)


def _on_name_error(shell: Any, kind: type, error: NameError, tb: Any, tb_offset: int | None = None) -> list[str]:
    from IPython.display import display

    shown: list[str] = shell.InteractiveTB.structured_traceback(kind, error, tb, tb_offset=tb_offset)
    cells: list[str] = shell.user_ns.get("In", [])
    if error.name and cells and f"check({error.name}" in cells[-1]:
        defining = [cell for cell in cells if f"def {error.name}" in cell or f"class {error.name}" in cell]
        with contextlib.suppress(BadRequest):  # no exercise asks for a function so called
            verdict = _service().grade(error.name, defining[-1:] or [""], None, fresh=False)
            display(Score.of(verdict.checks[:1], report.output_html(report.check_html(verdict.checks[0]))))
    shell._showtraceback(kind, error, shown)
    return shown


class _Client:
    """The grading service that this kernel asks.

    The one at the socket that the environment names, if it does; else one of its own, which ends with the kernel.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._verdicts: dict[tuple[str, ...], Verdict] = {}
        self._closed = False
        self._socket: socket.socket | None = None
        self._process: lines.Process | None = None
        if SERVICE in os.environ:
            self._socket = socket.socket(socket.AF_UNIX)
            try:
                self._socket.connect(os.environ[SERVICE])
            except OSError as error:
                self._socket.close()
                raise BadRequest(f"the grading service cannot be reached ({error.strerror})") from None
            self._lines = lines.Lines(self._socket.fileno(), self._socket.fileno())
        else:
            self._lines = self._process = lines.Process([sys.executable, "-I", "-m", "grader.daemon.client", "--lines"])
        atexit.register(self.close)

    @property
    def alive(self) -> bool:
        return not self._closed and (self._process is None or self._process.alive)

    def grade(self, name: str, cells: Sequence[str], seed: int | None, fresh: bool) -> Verdict:
        """The verdict; one that was given for the same cells is given again unless `fresh`."""
        known = self._verdicts.get((name, *cells))
        if known is None or fresh:
            said = self.ask({"grade": name, "cells": cells, "seed": seed})
            known = self._verdicts[name, *cells] = Verdict.from_json(said["verdict"], said["extra"])
        return known

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """One request and its answer. Raises BadRequest with the service's sentence."""
        with self._lock:
            try:
                self._lines.tell(request)
                answer = self._lines.hear() or {}
            except EOFError:
                self.close()
                raise BadRequest("the grading service ended; run the cell again") from None
            except BaseException:  # interrupted half-way: its next answer would be to the wrong question
                self.close()
                raise
        if "error" in answer:
            raise BadRequest(answer["error"])
        return answer

    def close(self) -> None:
        self._closed = True
        atexit.unregister(self.close)
        if self._socket is not None:
            self._socket.close()
        if self._process is not None:
            self._process.end()


_client: _Client | None = None


def _service() -> _Client:
    global _client
    if _client is None or not _client.alive:
        _client = _Client()
    return _client
