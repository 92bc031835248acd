"""Spark as checks use it: one box with a warm JVM, and runs of a submission's function in it."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from grader.jobs.sparks import java
from grader.jobs.sparks.measured import Measured
from grader.lost import Lost, Unable
from grader.sandbox import endings, modes
from grader.sandbox.client import NONSENSE, Beyond, Client, NoAnswer, Patience, plain
from grader.sandbox.endings import Raised
from grader.sandbox.limits import MIB, BoxLimits
from grader.sandbox.warm import BoxFailed, Warm
from grader.submission import Source, Submission
from grader.verdict import Diagnosis, Kind

LIMITS = BoxLimits(
    memory_bytes=3072 * MIB, processes=600, disk_bytes=512 * MIB, inodes=65_536, open_files=4096, cpu_seconds=7200
)
START_SECONDS = 120.0
RUN_SECONDS = 120.0  # real ones: the last resort; a task and the driver have CPU limits of their own
FIT_SECONDS = 150.0  # as real, of a fit (`tunings.FIT_SECONDS`)
STDOUT_BYTES = 2**22
BEYOND = {
    "memory": "Spark and the submission used {used:,.0f} MiB of memory, and at most {allowed:,.0f} MiB are allowed. "
    "Keep less data in Python, and collect less.",
    "printing": "The submission printed {used:,.0f} bytes, all that is allowed. Print less.",
    "cpu": "Spark and the submission used {used:,.0f} s of CPU time, and at most {allowed:,.0f} s are allowed.",
    "": "Spark and the submission had {used:,.0f} processes and threads, and at most {allowed:,.0f} are allowed.",
}
RAISED = {
    "load": "Loading the submission",
    "collect": "Computing the DataFrame that was returned",
    "look": "Reading the CrossValidator that was returned",
    "query": "The streaming query",
}  # by the stage of an error; "" of all others: the call


class Failed(BoxFailed):
    """Spark has broken down, and why: not the submission's fault."""


class _BrokenDown(Exception):  # noqa: N818 - reads as what happened
    """Spark is of no use any more: by itself, or by what it was given to run."""


class Missing(Unable):
    """Spark cannot be run on this machine, and why."""


@dataclass(frozen=True)
class Frame:
    """Rows for a DataFrame: JSON texts, one a line, and its schema as DDL."""

    rows: str
    schema: str


@dataclass(frozen=True)
class Lines:
    """Text for an RDD of lines; with `pairs`, of tuples that tabs separate."""

    text: str
    pairs: bool = False


@dataclass(frozen=True)
class Day:
    """A datetime.date, as ISO text."""

    iso: str


@dataclass(frozen=True)
class Fit:
    """Not an argument: what the supervisor fits the CrossValidator that is returned with, and what it predicts then."""

    train: Frame
    test: Frame


@dataclass(frozen=True)
class Part:
    """A stage, an evaluator or such of Spark's ML: its class, its uid, and its parameters by name."""

    kind: str
    uid: str
    values: dict[str, Any]

    @classmethod
    def read(cls, told: dict[str, Any]) -> Part:
        return cls(str(told["kind"]), str(told["uid"]), {str(k): v for k, v in told["values"].items()})


@dataclass(frozen=True)
class Tuning:
    """A CrossValidator as the JVM has it. `stages` are empty where its estimator is no pipeline; of each map of the
    grid the (uid, parameter, value). Where it was fitted: `metrics` of the maps, and `rows` predicted, as JSON texts;
    or `raised`."""

    validator: Part
    estimator: Part
    stages: tuple[Part, ...]
    grid: tuple[tuple[tuple[str, str, Any], ...], ...]
    evaluator: Part
    metrics: tuple[float, ...] = ()
    rows: tuple[str, ...] = ()
    raised: str = ""

    @classmethod
    def read(cls, told: dict[str, Any]) -> Tuning:
        grid = tuple(tuple((str(uid), str(name), value) for uid, name, value in each) for each in told["grid"])
        return cls(
            Part.read(told["validator"]), Part.read(told["estimator"]), tuple(map(Part.read, told["stages"])), grid,
            Part.read(told["evaluator"]), tuple(map(float, told.get("metrics", ()))),
            tuple(map(str, told.get("rows", ()))), str(told.get("raised", "")),
        )  # fmt: skip


@dataclass(frozen=True)
class Operator:
    """An operator of a physical plan: its name, what it says of itself, and what it reads from.

    `rows` is how many it put out, where Spark counts them, and `argument` the place of the argument that a scan reads.
    """

    name: str
    text: str
    children: tuple[Operator, ...]
    rows: int | None = None
    argument: int | None = None

    @classmethod
    def read(cls, told: dict[str, Any]) -> Operator:
        below = tuple(cls.read(child) for child in told["children"])
        rows, argument = (None if told.get(each) is None else int(told[each]) for each in ("rows", "argument"))
        return cls(str(told["name"]), str(told["text"]), below, rows, argument)

    def everything(self) -> list[Operator]:
        """This operator and all below it."""
        return [self, *(found for child in self.children for found in child.everything())]


@dataclass
class Returned:
    """A run that came to its end. Of a DataFrame: `columns` (name and type), `rows` (JSON texts) and `plan`.

    `changed` are settings of the session that are no longer as it was lent, and what they are now.
    """

    type_name: str
    value: Any
    measured: Measured
    columns: list[tuple[str, str]] = field(default_factory=list)
    rows: list[str] = field(default_factory=list)
    plan: Operator | None = None
    changed: dict[str, str] = field(default_factory=dict)
    tuning: Tuning | None = None


class Spark:
    """A warm JVM in a box, lent to one run after another. It starts when it is first needed; close it."""

    def __init__(self, warm: Warm, shared: bool | None = None) -> None:
        """With `shared`, gradings use one JVM in turns; else each gets a fresh one: the default where a class is
        graded."""
        self._warm = warm
        self._shared = os.environ.get(modes.LEAST) != "full" if shared is None else shared
        self._client: Client | None = None
        self._kept: dict[str, str] = {}  # names of files in the box, by their text
        self._group = ""
        self.start_seconds = 0.0

    def start(self) -> None:
        """Have the JVM ready. Raises Missing, Failed."""
        if self._client is not None and not self._client.status:
            return
        self.close()
        why = java.missing()
        if why:
            raise Missing(f"Not run, because {why}.")
        options, began = java.prepared(), time.monotonic()
        self._client = Client(self._warm.box(1, LIMITS), 30.0, STDOUT_BYTES)
        self._client.post(0, {"program": "spark", "options": options})
        told = self._hear(START_SECONDS)
        if told is None or told[0].get("event") != "up":
            text = plain(told[0].get("text", "")) if told else "it did not answer"
            self.close()
            raise Failed(f"Spark did not start ({text})")
        self._group = str(told[0]["group"])
        self.start_seconds = time.monotonic() - began

    def done(self) -> None:
        """A grading is over."""
        if not self._shared:
            self.close()

    def close(self) -> None:
        """End the box, and with it the JVM."""
        if self._client is not None:
            self._client.close()
        self._client, self._kept = None, {}

    @property
    def warm(self) -> Warm:
        """Where its boxes come from."""
        return self._warm

    def run(
        self,
        submission: Submission,
        call: str,
        arguments: Sequence[Any],
        label: str = "",
        conf: Mapping[str, str] | None = None,
        before: Sequence[Any] | None = None,
        after: Sequence[Any] | None = None,
    ) -> Returned:
        """Call the submission's function. Raises Lost where it does not return; Failed where Spark does not start.

        `conf` are settings of the session that it is lent, `before` the arguments of a call before this one, and
        `after` those of one after it, which is made before anybody looks at what this one returned.
        Where Spark itself breaks down in the call, it is made once more in a new box: who does that twice did it.
        """
        for last in (False, True):
            self.start()
            try:
                return self._run(submission, call, arguments, label, dict(conf or {}), before, after)
            except Lost:
                raise
            except Beyond as beyond:
                self.close()
                raise Lost(beyond_limit(submission, beyond, label), broke=True) from None
            except (_BrokenDown, *NONSENSE) as error:
                self.close()
                if last:
                    why = error if isinstance(error, _BrokenDown) else _no_answer(error)
                    text = f"Spark broke down in this call ({why}), and a new Spark did so again."
                    raise Lost(diagnosis(submission, "crash", text, None, label), broke=True) from None
            except BaseException:
                self.close()
                raise
        raise AssertionError

    def _run(
        self, submission: Submission, call: str, arguments: Sequence[Any], label: str, conf: dict[str, str],
        before: Sequence[Any] | None, after: Sequence[Any] | None,
    ) -> Returned:  # fmt: skip
        fit = next((each for each in arguments if isinstance(each, Fit)), None)
        given = [self._given(each) for each in arguments if each is not fit]
        assert self._client is not None
        asked = {"event": "run", "source": submission.source, "file": submission.name, "call": call,
                 "arguments": given, "conf": conf, "seconds": RUN_SECONDS}  # fmt: skip
        if before is not None:
            asked["before"] = [self._given(each) for each in before]
        if after is not None:
            asked["after"] = [self._given(each) for each in after]
        if fit is not None:
            asked["fit"] = {"train": self._given(fit.train), "test": self._given(fit.test)}
        self._client.post(0, asked)
        result = self._hear(RUN_SECONDS + 60 + (FIT_SECONDS if fit is not None else 0))
        if result is None:
            raise _BrokenDown("its supervisor does not answer")
        told = result[0]
        events = self._hear(60)
        if events is None:  # the JVM is gone, or stands still
            self.close()
        wrong = wrong_with(submission, told, label)
        if wrong is not None:
            if told["event"] in ("endless", "died"):
                self.close()  # its tasks may go on
            raise Lost(wrong, broke=self._client is None)
        if events is None:
            raise _BrokenDown("its JVM ended")
        log_bytes = int(events[0]["log"])
        if log_bytes >= LIMITS.file_bytes:  # Spark says nothing when it cannot write its log
            raise _BrokenDown(f"its event log grew to {log_bytes:,} bytes, the most that a file may have")
        if log_bytes > LIMITS.file_bytes // 2:
            self.close()  # the log is of all runs: the next begins a new one
        measured = Measured.read(events[1], self._group)
        if told.get("type") == "DataFrame":
            columns = [(str(name), str(kind)) for name, kind in told["columns"]]
            changed = {plain(name, 100): plain(value, 100) for name, value in told["changed"].items()}
            plan = Operator.read(told["plan"])
            return Returned("DataFrame", None, measured, columns, list(told["rows"]), plan, changed)
        if told.get("type") == "CrossValidator":
            return Returned("CrossValidator", None, measured, tuning=Tuning.read(told["tuning"]))
        return Returned(str(told["type"]), told["value"], measured)

    def _given(self, argument: Any) -> dict[str, Any]:
        if isinstance(argument, Frame):
            return {"frame": self._file(argument.rows), "schema": argument.schema}
        if isinstance(argument, Lines):
            return {"rdd": self._file(argument.text), "pairs": argument.pairs}
        if isinstance(argument, Day):
            return {"date": argument.iso}
        return {"value": argument}

    def _file(self, text: str) -> str:
        """The name of a file in the box with this text."""
        assert self._client is not None
        if text not in self._kept:
            name = f"input-{len(self._kept)}"
            self._client.post(0, {"event": "file", "name": name}, text.encode())
            if self._hear(30) is None:
                raise _BrokenDown("its supervisor does not answer")
            self._kept[text] = name
        return self._kept[text]

    def _hear(self, seconds: float) -> tuple[dict[str, Any], bytes] | None:
        """The supervisor's next message; None where there is none in so many seconds, or it has ended."""
        assert self._client is not None
        try:
            message = self._client.wait(0, Patience(wall=seconds))
        except NoAnswer:
            return None
        return message.header, message.blob


def _no_answer(error: Exception) -> str:
    return f"reading its answer raised {type(error).__name__}"


def diagnosis(submission: Submission, kind: Kind, text: str, line: int | None, label: str) -> Diagnosis:
    """What is said of a run of a submission's function, with `label`."""
    where = Source(submission.name, submission.source).quote(line)
    return Diagnosis(kind, f"{label + ': ' if label else ''}{text.rstrip('.')}{where}.", None, submission.name, line)


def wrong_with(submission: Submission, told: dict[str, Any], label: str) -> Diagnosis | None:
    """Why a run did not return, if it did not."""
    event, refused = told.get("event"), [plain(each, 200) for each in told.get("refused", ())]
    if refused:
        text = f"The submission broke a rule of the sandbox: {refused[0]}."
        return diagnosis(submission, "sandbox_violation", text, None, label)
    if event == "returned":
        return None
    if event == "missing":
        return diagnosis(submission, "missing_function", f"{submission.name} {plain(told['text'])}.", None, "")
    if event == "endless":
        text = f"The call did not return within {RUN_SECONDS:g} s. Look for a loop that never ends or takes too long."
        if told.get("fit"):
            text = (
                f"Fitting the CrossValidator that was returned took more than {FIT_SECONDS:g} s. Fit fewer models, or "
                "cheaper ones: fewer iterations, or fewer trees."
            )
        return diagnosis(submission, "timeout", text, None, label)
    if event == "died":
        text = "The driver's process ended before the call returned. It must not end itself. Its CPU time is limited."
        return diagnosis(submission, "crash", text, None, label)
    if event != "raised":
        raise _BrokenDown(plain(told.get("text", "nothing is known of the run"), 300))
    error = Raised.read(told, 500)
    text = f"{error.type}: {error.text}"
    if error.stage == "compile":
        return diagnosis(submission, "syntax_error", f"{submission.name} is not valid Python: {text}", error.line, "")
    memory = "OutOfMemoryError" in text or error.type == "MemoryError"
    text = f"{RAISED.get(error.stage, 'The call')} raised {text}"
    return diagnosis(submission, "out_of_memory" if memory else "crash", text, error.line, label)


def beyond_limit(submission: Submission, beyond: Beyond, label: str) -> Diagnosis:
    """What is said of a submission that took more than its box may."""
    kind, text = endings.beyond(beyond, BEYOND)
    return diagnosis(submission, "sandbox_violation" if kind == "timeout" else kind, text, None, label)
