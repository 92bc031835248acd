"""One grading's use of a Ray: the process with the submission, what it answers, and what is said at the gate.

What comes from there is a learner's to make up, except what the nursery says of its own: which process spoke, and
which has gone.
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from grader.jobs.rays.room import Rays
from grader.sandbox import endings, frames
from grader.sandbox.client import NONSENSE, Beyond
from grader.sandbox.endings import NO_ANSWER, Raised
from grader.submission import Source, Submission
from grader.trace.trouble import Trouble
from grader.verdict import Diagnosis, Kind

LOAD_SECONDS, REQUEST_SECONDS = 60.0, 20.0
IDLE_SECONDS = 0.25
MOST_SAID = 10_000  # messages at the gate in one call
BEYOND = {
    "memory": "Out of memory: all used {used:,.0f} MiB where {allowed:,.0f} MiB are allowed.",
    "": "The run used {used:g} of {limit} where {allowed:g} is allowed.",
}


@dataclass(frozen=True)
class Said:
    """What a process said at the gate: the number to answer to, its process id, its role and the words."""

    number: int
    pid: int
    role: str  # driver, worker (one of Ray's) or other
    what: dict[str, Any]


class Driver:
    """One grading's use of a Ray: a process with the submission, and Ray's workers for it. Close it.

    Raises Trouble for what the submission has done, NotPlayed where there is no Ray.
    """

    def __init__(
        self, rays: Rays, submission: Submission, functions: Sequence[str], harness: str, imported: Sequence[str] = ()
    ) -> None:
        self.file, self.source = submission.name, Source(submission.name, submission.source)
        self._rays, self._room, self._whole = rays, rays.take(), True
        self._closed, self.broken = False, False
        self.died: list[int] = []  # process ids of workers, as they went
        self._waiting: deque[dict[str, Any]] = deque()
        try:
            self._room.printed(anew=True)
            self._room.post(
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
        at the gate meanwhile, `idle` is called where nothing is for a while."""
        self._room.post({"do": "call", "function": function, "by": by, "arguments": arguments})
        told = self._driven(seconds, said, idle)
        return frames.decode(told["value"], b"", lambda *_: None)

    def answer(self, said: Said, value: Any = None) -> None:
        self._room.post({"do": "answer", "to": said.number, "answer": value})

    def kill(self, pid: int) -> None:
        """SIGKILL one of Ray's workers; it is gone when this returns."""
        self._request({"do": "kill", "pid": pid})

    def actors(self) -> list[dict[str, Any]]:
        """This grading's actors, as Ray's tables have them."""
        return [each for each in self._request({"do": "ask", "ask": "actors"}) if each["job"] == self.job]

    def tasks(self) -> list[dict[str, Any]]:
        """This grading's tasks, every attempt, as Ray's tables have them."""
        return [each for each in self._request({"do": "ask", "ask": "tasks"}) if each["job"] == self.job]

    def trouble(self, kind: Kind, text: str, expected: str = "", got: str = "", line: int | None = None) -> Trouble:
        return Trouble(Diagnosis(kind, text, None, self.file, line, expected or None, got or None))

    def printed(self) -> str:
        return self._room.printed()

    def close(self) -> None:
        """End the learner's processes, and give the Ray back."""
        if self._closed:
            return
        self._closed = True
        try:
            if self._whole and self._room.alive:
                self._room.post({"do": "end"})
                deadline = time.monotonic() + 20.0
                while (told := self._room.hear(deadline)) is not None and told.header.get("event") != "ended":
                    pass
                self._whole = told is not None
        except (Beyond, ConnectionError, *NONSENSE):
            self._whole = False
        finally:
            self._rays.give_back(self._whole)

    # ---- what is heard

    def _request(self, asked: dict[str, Any]) -> Any:
        """What the nursery answers; what else is said meanwhile waits."""
        with self._guarded():
            self._room.post(asked)
            deadline = time.monotonic() + REQUEST_SECONDS
            while (message := self._room.hear(deadline)) is not None:
                if message.header.get("event") == "answer":
                    return message.header["answer"]
                self._waiting.append(message.header)
            raise ConnectionError

    def _driven(
        self, seconds: float, said: Callable[[Said], None] | None = None, idle: Callable[[], None] | None = None
    ) -> dict[str, Any]:
        """What the driver says next; what is said at the gate, and who goes, is heard on the way."""
        deadline, heard = time.monotonic() + seconds, 0
        while True:
            told = self._next(deadline, idle)
            match told.get("event"):
                case "said":
                    heard += 1
                    if heard > MOST_SAID:
                        raise self._broke("timeout", f"The run came to the gate more than {MOST_SAID} times.")
                    self._said(told, said)
                case "gone":
                    self.died.append(told["pid"])
                case "driver" if "message" not in told:
                    raise self._broke("crash", f"The driver's process ended by itself (status {told.get('status')}).")
                case "driver":
                    return self._meant(told["message"])

    def _said(self, told: dict[str, Any], said: Callable[[Said], None] | None) -> None:
        heard = Said(told["number"], told["pid"], told["role"], told["what"])
        if said is None:
            self.answer(heard)
            return
        try:
            said(heard)
        except Trouble:
            self.broken = True  # it waits at the gate
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
            with self._guarded():
                message = self._room.hear(min(deadline, time.monotonic() + IDLE_SECONDS))
            if message is not None:
                return message.header
            if time.monotonic() >= deadline:
                raise self._broke("timeout", "The call did not come to its end in time.")
            if idle is not None:
                idle()
        return self._waiting.popleft()

    @contextlib.contextmanager
    def _guarded(self) -> Iterator[None]:
        """What ends the box, in words."""
        try:
            yield
        except Beyond as beyond:
            raise self._lost(endings.beyond(beyond, BEYOND)) from None
        except ConnectionError:
            trouble = self._lost(("crash", "The submission ended Ray itself, or its whole box."))
            trouble.broke = True
            raise trouble from None
        except NONSENSE:
            raise self._lost(NO_ANSWER) from None

    def _lost(self, why: tuple[Kind, str]) -> Trouble:
        self._whole = False
        return self._broke(*why)

    def _broke(self, kind: Kind, text: str) -> Trouble:
        self.broken = True
        return self.trouble(kind, text)

    def _raised(self, told: dict[str, Any]) -> Trouble:
        error = Raised.read(told, 4000)
        when = ", when it was loaded" if error.stage == "load" else ", when it was called"
        if error.stage != "compile":
            error = replace(error, text=_short(error.text))
        kind, text = endings.raised(error, self.file, self.source.quote(error.line), when)
        return self.trouble(kind, text, line=error.line)


def _short(text: str) -> str:
    """Of a text with a traceback, as Ray's errors have it, the last line."""
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return (lines[-1] if "Traceback" in text or len(lines) > 3 else " ".join(lines))[:500] if lines else ""
