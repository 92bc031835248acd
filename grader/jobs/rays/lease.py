"""A Ray in a box, and one grading's lease of it: the process with the submission, what it answers, and what is said at
the rendezvous.

What comes from there is a learner's to make up, except what the supervisor in the box says of its own: which process
spoke, and which has gone.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from grader.lost import Lost, Unable
from grader.sandbox import endings, frames, modes
from grader.sandbox.client import NONSENSE, Beyond, Client, Gone, NoAnswer, Overdue, Patience, plain
from grader.sandbox.endings import NO_ANSWER, Raised
from grader.sandbox.limits import MIB, BoxLimits
from grader.sandbox.warm import Warm
from grader.submission import Source, Submission
from grader.verdict import Kind

CPUS = 4  # logical ones: so many tasks run at the same time, also on fewer cores
STORE_BYTES = 96 * MIB
LIMITS = BoxLimits(
    memory_bytes=6144 * MIB, processes=3000, disk_bytes=512 * MIB, inodes=20_000, open_files=4096,
    file_bytes=256 * MIB, cpu_seconds=7200, subreaper=True, unix_sockets=True,
)  # fmt: skip
START_SECONDS = 120.0
STDOUT_BYTES = 2**20
NOT_INSTALLED = "Not run, because Ray is not installed. Install it with `pip install 'rankup[jobs]'`."
LOAD_SECONDS, REQUEST_SECONDS, END_SECONDS = 60.0, 20.0, 20.0
IDLE_SECONDS = 0.25
COLOR = re.compile(r"[^\w\s]?\[\d+m")  # around the name of a task or an actor, in Ray's errors
MOST_SAID = 10_000  # messages at the rendezvous in one call
BEYOND = {
    "memory": "Ray and the submission used {used:,.0f} MiB of memory, and at most {allowed:,.0f} MiB are allowed. Keep "
    "less data at a time.",
    "printing": "The submission printed {used:,.0f} bytes, all that is allowed. Print less.",
    "cpu": "Ray and the submission used {used:,.0f} s of CPU time, and at most {allowed:,.0f} s are allowed.",
    "": "Ray and the submission had {used:g} processes and threads, and at most {allowed:g} are allowed.",
}


class Rays:
    """The Ray of one `Engines`: started when it is first needed, and again where it broke."""

    def __init__(self, warm: Warm, shared: bool | None = None) -> None:
        """With `shared`, gradings use one Ray in turns; else each gets one that nobody has used before: the default
        where a class is graded."""
        self._warm = warm
        self._shared = os.environ.get(modes.LEAST) != "full" if shared is None else shared
        self._lock = threading.Lock()
        self._client: Client | None = None

    def take(self) -> Client:
        """Wait until it is ours, and start it if need be. Raises Unable where there is no Ray; give it back."""
        if importlib.util.find_spec("ray") is None:
            raise Unable(NOT_INSTALLED)
        self._lock.acquire()
        try:
            if self._client is None or self._client.status:
                self.close()
                self._client = self._started()
        except BaseException:
            self._lock.release()
            raise
        return self._client

    def _started(self) -> Client:
        client = Client(self._warm.box(1, LIMITS), 10.0, STDOUT_BYTES)
        try:
            client.post(0, {"program": "ray", "cpus": CPUS, "store_bytes": STORE_BYTES})
            told = client.wait(0, Patience(wall=START_SECONDS)).header
            why = "" if told.get("event") == "up" else plain(told.get("text", ""), 300) or "no reason was given"
        except NoAnswer as none:
            why = "it took too long" if isinstance(none, Overdue) else "its supervisor ended"
        except BaseException:
            client.close()
            raise
        if why:
            client.close()
            raise Unable(f"Not run, because Ray did not start on this machine ({why}).")
        return client

    def give_back(self, whole: bool) -> None:
        """`whole` says whether it can be used again."""
        if not whole or not self._shared:
            self.close()
        self._lock.release()

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None


@dataclass(frozen=True)
class Said:
    """What a process said at the rendezvous: the number to answer to, its process id, its role and the words."""

    number: int
    pid: int
    role: str  # driver, worker (one of Ray's) or other
    what: dict[str, Any]


class Driver:
    """One grading's use of a Ray: a process with the submission, and Ray's workers for it. Close it.

    Raises Lost for what the submission has done, Unable where there is no Ray.
    """

    def __init__(
        self, rays: Rays, submission: Submission, functions: Sequence[str], harness: str, imported: Sequence[str] = ()
    ) -> None:
        self.file, self.source = submission.name, Source(submission.name, submission.source)
        self._rays, self._client, self._whole = rays, rays.take(), True
        self._closed, self.broken = False, False
        self._called = ""  # the function of the submission that was called last
        self.died: list[int] = []  # process ids of workers, as they went
        self._waiting: deque[dict[str, Any]] = deque()
        try:
            self._client.printed.forget()
            self._client.post(0,
                {"do": "driver", "source": submission.source, "file": submission.name, "functions": [*functions],
                 "harness": harness, "imported": [*imported]}
            )  # fmt: skip
            told = self._driven(LOAD_SECONDS)
            self.missing, self.job = list(map(str, told["missing"])), str(told["job"])
        except BaseException:
            self.close()
            raise

    def call(
        self, function: str, by: str, *arguments: Any, seconds: float,
        said: Callable[[Said], None] | None = None, idle: Callable[[], None] | None = None,
    ) -> Any:  # fmt: skip
        """Have the driver call that function of the harness with that one of the submission. `said` hears what is said
        at the rendezvous meanwhile, `idle` is called where nothing is for a while."""
        self._called = f" with {function}"
        self._client.post(0, {"do": "call", "function": function, "by": by, "arguments": arguments})
        told = self._driven(seconds, said, idle)
        return frames.decode(told["value"], b"", lambda *_: None)

    def answer(self, said: Said, value: Any = None) -> None:
        self._client.post(0, {"do": "answer", "to": said.number, "answer": value})

    def kill(self, pid: int) -> None:
        """SIGKILL one of Ray's workers; it is gone when this returns."""
        self._request({"do": "kill", "pid": pid})

    def actors(self) -> list[dict[str, Any]]:
        """This grading's actors, as Ray's tables have them."""
        return [each for each in self._request({"do": "ask", "ask": "actors"}) if each["job"] == self.job]

    def tasks(self) -> list[dict[str, Any]]:
        """This grading's tasks, every attempt, as Ray's tables have them."""
        return [each for each in self._request({"do": "ask", "ask": "tasks"}) if each["job"] == self.job]

    def lost(self, kind: Kind, text: str, expected: str = "", got: str = "", line: int | None = None) -> Lost:
        return Lost.because(kind, text, file=self.file, line=line, expected=expected, got=got)

    def printed(self) -> str:
        return self._client.printed.text("stdout")

    def close(self) -> None:
        """End the learner's processes, and give the Ray back."""
        if self._closed:
            return
        self._closed = True
        try:
            if self._whole and not self._client.status:
                self._client.post(0, {"do": "end"})
                since, event = self._client.moment(0), None
                while event != "ended":
                    event = self._client.wait(0, Patience(wall=END_SECONDS), since).header.get("event")
        except (Beyond, NoAnswer, *NONSENSE):
            self._whole = False
        finally:
            self._rays.give_back(self._whole)

    # ---- what is heard

    def _request(self, asked: dict[str, Any]) -> Any:
        """What the supervisor answers; what else is said meanwhile waits."""
        since = self._client.moment(0)
        self._client.post(0, asked)
        while True:
            with self._guarded():
                try:
                    told = self._client.wait(0, Patience(wall=REQUEST_SECONDS), since).header
                except Overdue:
                    raise Gone(0) from None
            if told.get("event") == "answer":
                return told["answer"]
            self._waiting.append(told)

    def _driven(
        self, seconds: float, said: Callable[[Said], None] | None = None, idle: Callable[[], None] | None = None
    ) -> dict[str, Any]:
        """What the driver says next; what is said at the rendezvous, and who goes, is heard on the way."""
        deadline, heard = time.monotonic() + seconds, 0
        while True:
            told = self._next(deadline, idle)
            match told.get("event"):
                case "said":
                    heard += 1
                    if heard > MOST_SAID:
                        text = f"The functions that the run was given were called more than {MOST_SAID:,} times."
                        raise self._broke("timeout", text)
                    self._said(told, said)
                case "gone":
                    self.died.append(told["pid"])
                case "driver" if "message" not in told:
                    text = f"The driver's process ended before it was done (status {told.get('status')})."
                    raise self._broke("crash", text)
                case "driver":
                    return self._meant(told["message"])

    def _said(self, told: dict[str, Any], said: Callable[[Said], None] | None) -> None:
        heard = Said(told["number"], told["pid"], told["role"], told["what"])
        if said is None:
            self.answer(heard)
            return
        try:
            said(heard)
        except Lost:
            self.broken = True  # it waits at the rendezvous
            raise
        except NONSENSE:
            raise self._broke(*NO_ANSWER) from None

    def _meant(self, message: dict[str, Any]) -> dict[str, Any]:
        match message.get("event"):
            case "raised":
                raise self._raised(message)
            case "loaded" | "returned":
                return message
        raise self._broke(*NO_ANSWER)

    def _next(self, deadline: float, idle: Callable[[], None] | None) -> dict[str, Any]:
        while not self._waiting:
            wall = min(deadline - time.monotonic(), IDLE_SECONDS)
            with self._guarded():
                try:
                    return self._client.wait(0, Patience(wall=wall)).header
                except Overdue:
                    pass
            if time.monotonic() >= deadline:
                text = f"The driver was not done in time{self._called}. Look for a wait or a loop that never ends."
                raise self._broke("timeout", text)
            if idle is not None:
                idle()
        return self._waiting.popleft()

    @contextlib.contextmanager
    def _guarded(self) -> Iterator[None]:
        """What ends the box, in words."""
        try:
            yield
        except (Beyond, Gone, *NONSENSE) as error:
            self._whole = False
            if isinstance(error, Beyond):
                raise self._broke(*endings.beyond(error, BEYOND)) from None
            if isinstance(error, Gone):
                lost = self._broke("crash", "Ray ended or stopped answering while the submission ran.")
                lost.broke = True
                raise lost from None
            raise self._broke(*NO_ANSWER) from None

    def _broke(self, kind: Kind, text: str) -> Lost:
        self.broken = True
        return self.lost(kind, text)

    def _raised(self, told: dict[str, Any]) -> Lost:
        error = Raised.read(told, 4000)
        when = ", when it was loaded" if error.stage == "load" else ", when it was called"
        if error.stage != "compile":
            error = replace(error, text=_short(error.text))
        kind, text = endings.raised(error, self.file, self.source.quote(error.line), when)
        return self.lost(kind, text, line=error.line)


def _short(text: str) -> str:
    """Of a text with a traceback, as Ray's errors have it, the last line."""
    lines = [line for line in COLOR.sub("", text).strip().splitlines() if line.strip()]
    from_a_task = "Traceback" in text or (bool(lines) and lines[0].startswith("ray::"))
    return (lines[-1] if from_a_task or len(lines) > 3 else " ".join(lines))[:500] if lines else ""
