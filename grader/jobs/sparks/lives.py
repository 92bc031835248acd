"""A streaming query that is killed and started again, as checks use it: one box, and one life after another in it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from grader.jobs.sparks import java
from grader.jobs.sparks.engine import Failed, Missing, beyond_limit, diagnosis, wrong_with
from grader.lost import Lost
from grader.sandbox.client import NONSENSE, Beyond, Client, NoAnswer, Patience, plain
from grader.sandbox.limits import MIB, BoxLimits
from grader.sandbox.warm import Warm
from grader.submission import Submission
from grader.verdict import Diagnosis

LIMITS = BoxLimits(memory_bytes=3072 * MIB, processes=600, disk_bytes=512 * MIB, inodes=40_000, open_files=4096,
                   cpu_seconds=7200)  # fmt: skip
STDOUT_BYTES = 2**20
ANSWER_SECONDS = 150.0
Until = Literal["idle", "touched", "frozen"]


@dataclass(frozen=True)
class Step:
    """Files (name and text) that come into the input, in their order, and what is then waited for: that the query is
    "idle", that the sink of the batch after them has "touched" the output, at which all of it stands still, or that it
    is "frozen": Python stands still from that moment, and the JVM has done what it was told before."""

    files: tuple[tuple[str, str], ...] = ()
    until: Until = "idle"


@dataclass(frozen=True)
class Death:
    """How a life ends; `uncommit` takes back the newest commit, as a crash before it leaves the checkpoint."""

    told: str
    uncommit: bool = False


@dataclass(frozen=True)
class Life:
    """One life: files that are there when it begins; its steps; then what was written is read, where `read` says so;
    then its death, if it has one."""

    label: str
    steps: tuple[Step, ...]
    read: bool = False
    death: Death | None = None
    present: tuple[tuple[str, str], ...] = ()


@dataclass
class Output:
    """What spark.read.parquet gives: columns with their types, rows as JSON texts; `why` where there is nothing. And
    the first file of the input that is by then not as it was put there, if any is."""

    columns: list[tuple[str, str]] = field(default_factory=list)
    rows: list[str] = field(default_factory=list)
    why: str = ""
    changed: str = ""


@dataclass
class Lived:
    """What came of the lives that were lived: outputs read, in their order, and why they ended early, if they did."""

    outputs: list[Output] = field(default_factory=list)
    trouble: Lost | None = None
    reached: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)  # of each life


def live(warm: Warm, submission: Submission, call: str, lives: Sequence[Life]) -> Lived:
    """Live them all. Raises Missing and Failed: neither is the submission's fault."""
    why = java.missing()
    if why:
        raise Missing(f"Not run, because {why}.")
    lived, now = Lived(), [""]
    query = _Query(Client(warm.box(1, LIMITS), 30.0, STDOUT_BYTES), submission, call)
    try:
        for life in lives:
            began = time.monotonic()
            now[0] = life.label
            _live(query, life, lived)
            lived.seconds.append(time.monotonic() - began)
    except Lost as lost:
        lived.trouble = lost
    except Beyond as beyond:
        lived.trouble = Lost(beyond_limit(submission, beyond, now[0]))
    except NONSENSE as error:
        raise Failed(f"reading the answer of Spark's supervisor raised {type(error).__name__}") from None
    finally:
        query.client.close()
    return lived


@dataclass
class _Query:
    client: Client
    submission: Submission
    call: str

    def ask(self, header: dict[str, Any], label: str) -> dict[str, Any]:
        """An order and its answer. Raises Lost where the submission is why there is none that is good."""
        self.client.post(0, header)
        try:
            told = self.client.wait(0, Patience(wall=ANSWER_SECONDS)).header
        except NoAnswer:
            raise Failed("Spark's supervisor does not answer") from None
        if told.get("event") in ("done", "read", "unread"):
            return told
        raise Lost(self._why(told, label))

    def _why(self, told: dict[str, Any], label: str) -> Diagnosis:
        if told.get("event") == "returned" and not told.get("refused"):
            got = plain(told.get("type"), 60)
            text = f"{self.call} returned {'nothing' if got == 'NoneType' else f'a {got}'}. "
            text += "Return the StreamingQuery that writeStream's start() gives."
            return diagnosis(self.submission, "wrong_result", text, None, label)
        if told.get("step") and not told.get("refused"):
            text = "The query was given a minute, and did not process all files in its input."
            return diagnosis(self.submission, "timeout", text, None, label)
        wrong = wrong_with(self.submission, told, label)
        if wrong is None:
            raise Failed("Spark's supervisor did not say how the query ended")
        return replace(wrong, message=wrong.message.replace("The call did not", f"{self.call} did not"))


def _live(query: _Query, life: Life, lived: Lived) -> None:
    if not lived.seconds:
        start = {"program": "stream", "options": java.prepared(), "source": query.submission.source,
                 "file": query.submission.name, "call": query.call}  # fmt: skip
        query.client.post(0, start)
    query.ask({"event": "live", "files": [list(each) for each in life.present]}, life.label)
    for step in life.steps:
        files = [list(each) for each in step.files]
        told = query.ask({"event": "step", "files": files, "until": step.until}, life.label)
        lived.reached.append(str(told["reached"]))
    if life.read:
        if life.death is None:
            query.ask({"event": "finish"}, life.label)
        told = query.ask({"event": "read"}, life.label)
        columns = [(str(name), str(kind)) for name, kind in told.get("columns", ())]
        found = [str(row) for row in told.get("rows", ())]
        lived.outputs.append(Output(columns, found, str(told.get("text", "")), str(told.get("changed", ""))))
    if life.death is not None:
        query.ask({"event": "kill", "uncommit": life.death.uncommit}, life.label)
