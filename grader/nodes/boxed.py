"""Nodes in a box: the grading process's side. What comes from there is a learner's to make up, and read with care."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from grader.lost import Lost
from grader.nodes import told as told_of
from grader.nodes.actors import Asked, Branch, named
from grader.nodes.life import Birth, Step
from grader.sandbox import endings, frames
from grader.sandbox.client import NONSENSE, Beyond, Client, Gone, Moment, Overdue, Patience, line_in, plain
from grader.sandbox.endings import Raised
from grader.sandbox.limits import MIB, BoxLimits
from grader.sandbox.warm import Warm
from grader.submission import Source
from grader.verdict import Diagnosis, Kind

BEYOND = {
    "printing": "The nodes printed more than {allowed:,.0f} bytes. Print less.",
    "memory": "Out of memory: the nodes used {used:,.0f} MiB, and {allowed:,.0f} MiB are allowed. At the end {who} was "
    "running.",
    "cpu": "The nodes used {used:.1f} s of CPU time, and {allowed:g} s are allowed.",
    "": "{who} had {used:g} processes and threads, and {allowed:g} are allowed.",
}
BOX = BoxLimits(memory_bytes=1024 * MIB)
# of a request that may go while answers are under way: it fits in the socket, so that neither side waits for the other
# to read
AHEAD_BYTES = 2**16


@dataclass(frozen=True)
class Code:
    """A learner's program, and the names of the nodes' classes in it."""

    source: str
    file: str
    classes: tuple[str, ...]


@dataclass(frozen=True)
class Limits:
    """What may be taken: CPU seconds of one request (some handlers), seconds of silence, bytes on
    stdout, and seconds that one answer may take in all, however it trickles in."""

    cpu_seconds: float = 2.0
    idle_seconds: float = 10.0
    stdout_bytes: int = 2**20
    wait_seconds: float = 30.0
    box: BoxLimits = BOX

    @property
    def patience(self) -> Patience:
        return Patience(self.cpu_seconds, self.idle_seconds, wall=self.wait_seconds)


@dataclass
class Allowance:
    """What all boxes of one grading may take together, in seconds: for their answers, and of that in requests that
    stood still for long. Each handler may be within its limits, and ten thousand of them take hours. What a busy
    machine makes them wait for is not theirs."""

    own_seconds: float = 300.0
    still_seconds: float = 15.0
    SHORT = 0.1  # seconds that a request may stand still and not be counted: we may have been late to read the answer
    LONG = 0.5  # and that it may stand still at all: news of the process comes ten times a second

    def take(self, computed: float, still: float) -> str:
        """Count one request: for how long the process computed, and for how long it stood still. Returns what was used
        up; "" if nothing was."""
        self.own_seconds -= computed + max(0.0, still - self.SHORT)
        if still > self.LONG:
            self.still_seconds -= still
            if self.still_seconds < 0:
                return "Handlers stood still again and again. Do not sleep or wait in a handler: use set_timer."
        return "" if self.own_seconds >= 0 else "All handlers together took too long. Do less work in a handler."


@dataclass(eq=False)
class Posted:
    """What was asked in one request, the number of the first of it among all that the process was ever asked, and what
    was answered, once it was."""

    asked: list[Asked]
    first: int
    found: list[Step | Branch | Lost] | None = None

    @property
    def last(self) -> int:
        return self.first + max(0, len(self.asked) - 1)


class Boxed:
    """Nodes in one process of a box, asked by `boxes.World`. Several requests may be under way, and are answered in
    order.

    Raises Lost where that process is of no use any more, and from then on. Close it.
    """

    def __init__(
        self, warm: Warm, code: Code, watched: tuple[str, ...] = (), limits: Limits | None = None,
        allowance: Allowance | None = None,
    ) -> None:  # fmt: skip
        self.watched, self._code, self._limits = watched, code, limits or Limits()
        self._allowance = allowance or Allowance()
        self._source = Source(code.file, code.source)
        self._under_way: deque[Posted] = deque()  # what was posted and not answered yet
        self._count = 0  # of all that was asked
        self._trouble: Exception | None = None  # what was heard after an answer, and is no matter of that one
        self._blamed = 0  # the number of what the process was doing when it was lost
        self.lost: Lost | None = None
        self.loaded = False  # whether there is a program that could make nodes
        self._client = Client(warm.box(1, self._limits.box), self._limits.idle_seconds, self._limits.stdout_bytes)
        self.printed = self._client.printed
        try:
            self.problems = self._load()
            self.loaded = True
        except Lost as lost:
            self.lost, self.problems = lost, {}
        except BaseException:
            self.close()  # nobody has it yet who could
            raise

    # ---- what is asked

    def _load(self) -> dict[str, str]:
        start = {"program": "nodes", "source": self._code.source, "file": self._code.file,
                 "classes": self._code.classes, "watched": self.watched}  # fmt: skip
        self._before = self._client.moment(0)  # when the answer before came, or the first request was posted
        self._client.post(0, start)
        problems = self._await("loaded").get("problems")
        if not isinstance(problems, dict) or not problems.keys() <= set(self._code.classes):
            raise self._no_answer()
        return {str(name): str(why)[:200] for name, why in problems.items()}

    def hopeless(self) -> Diagnosis | None:
        """Why no node can be made at all; None if some can."""
        if self.lost is not None:
            return self.lost.diagnosis
        return self._missing(self._code.classes[0]) if len(self.problems) == len(self._code.classes) else None

    def missing(self, birth: Birth | None) -> Lost | None:
        """Why a life cannot begin: there is no such class."""
        return Lost(self._missing(birth.kind)) if birth is not None and birth.kind in self.problems else None

    def _missing(self, name: str) -> Diagnosis:
        file = self._code.file
        expected = f"class {name}(Node)"
        return Diagnosis("missing_function", f"{file}: {self.problems[name]}.", file=file, expected=expected)

    def post(self, asked: Sequence[Asked], over: Sequence[str] = ()) -> Posted:
        """Ask for what nodes do, and say which worlds are over. `answers` gives what is answered."""
        posted = Posted(list(asked), self._count)
        self._count += len(posted.asked)
        if self.lost is None:
            frame = frames.pack_message({"asked": posted.asked, "over": list(over)})
            with contextlib.suppress(Lost):  # it is told where the answers are asked for
                while self._under_way and len(frame) > AHEAD_BYTES:
                    self._hear()
        if self.lost is not None:
            self._blamed = posted.first
            return posted
        if not self._under_way:
            self._before = self._client.moment(0)
        self._under_way.append(posted)
        self._client.send(0, frame)
        return posted

    def answers(self, posted: Posted) -> list[Step | Branch | Lost]:
        """What was posted, answered one by one: a Lost is of that one alone. Raises Lost where the process is of no
        use any more; then `blamed` says what it was doing."""
        while posted.found is None:
            if self.lost is not None:
                raise self.lost
            self._hear()
        return posted.found

    def blamed(self, posted: Posted) -> int | None:
        """Which of what was posted the process was doing when it was lost; None if that was none of it."""
        place = self._blamed - posted.first
        return place if 0 <= place < len(posted.asked) else None

    def _hear(self) -> None:
        """Take the answer to what was posted first. Raises Lost."""
        told = self._await("answers").get("answers")
        posted = self._under_way[0]
        if not isinstance(told, list) or len(told) != len(posted.asked):
            raise self._no_sense(posted.first)
        found: list[Step | Branch | Lost] = []
        for number, (asked, one) in enumerate(zip(posted.asked, told, strict=True)):
            try:
                if asked[0] == "turn":
                    found.append(told_of.step(one, self.watched))
                elif isinstance(one, dict) and "diverged" in one:
                    found.append(self._diverged(one["diverged"]))
                else:
                    found.append(told_of.branch(one, self.watched))
            except NONSENSE:
                raise self._no_sense(posted.first + number) from None
        posted.found = found
        self._under_way.popleft()

    def _no_sense(self, number: int) -> Lost:
        self.lost, self._blamed = self._no_answer(), number
        return self.lost

    # ---- the process

    def _await(self, event: str) -> dict[str, Any]:
        """Wait for the answer to what was posted. Raises Lost."""
        if self.lost is not None:
            raise self.lost
        self._blamed = -1
        try:
            return self._answer(event)
        except Lost as lost:
            self.lost = lost
        except Beyond as beyond:
            self.lost = self._lost(*endings.beyond(beyond, BEYOND, who=self._who()))
        except NONSENSE:
            self.lost = self._no_answer()
        if self._blamed < 0:
            self._blamed = self._running()
        raise self.lost

    def _running(self) -> int:
        """The number of what the process is doing: one of what is under way, if anything is."""
        if not self._under_way:
            return 0
        return min(max(self._under_way[0].first, self._client.box.number_of(0)), self._under_way[-1].last)

    def _message(self) -> dict[str, Any]:
        """The next answer. What goes wrong after it was sent is kept for the one after it."""
        if self._trouble is None:
            try:
                return self._client.wait(0, self._limits.patience, self._waited_since()).header
            except (Beyond, *NONSENSE) as trouble:
                self._trouble = trouble
                if isinstance(trouble, Beyond):
                    with contextlib.suppress(Beyond, *NONSENSE):
                        self._client.hear_out(0)
        if not self._client.inbox[0]:
            raise self._trouble
        return self._client.inbox[0].popleft().header

    def _waited_since(self) -> Moment:
        """From when on an answer is waited for. What we did meanwhile is no matter of the process; what it has computed
        since the answer before is."""
        return self._before._replace(at=self._client.moment(0).at)

    def _answer(self, event: str) -> dict[str, Any]:
        since = self._client.moment(0)
        try:
            told = self._message()
        except Gone as gone:
            text = f"The process of the nodes {endings.died(gone.status)}, in a handler of {self._who()}."
            raise self._lost("crash", text) from None
        except Overdue as overdue:
            raise self._endless(overdue) from None
        now = self._client.moment(0)
        used_up = self._allowance.take(now.cpu - self._before.cpu, since.stood_still(now))
        self._before = now
        if used_up and event != "loaded":
            asked, self._blamed = self._under_way[0].asked, self._under_way[0].last
            raise self._lost("timeout", f"The nodes were ended while {named(asked[-1])} was running. {used_up}")
        if told.get("event") == "raised":
            error = Raised.read(told)
            place = self._source.quote(error.line)
            raise self._lost(*endings.raised(error, self._code.file, place, " when it was loaded"), error.line)
        if told.get("event") != event:
            raise self._no_answer()
        return told

    # ---- what went wrong

    def _who(self) -> str:
        number = self._running()
        for posted in self._under_way:
            if 0 <= number - posted.first < len(posted.asked):
                return named(posted.asked[number - posted.first])
        return "the program"

    def _lost(self, kind: Kind, message: str, line: int | None = None, expected: str = "", got: str = "") -> Lost:
        return Lost.because(kind, message, file=self._code.file, line=line, expected=expected, got=got)

    def _no_answer(self) -> Lost:
        return self._lost(*endings.NO_ANSWER)

    def _endless(self, overdue: Overdue) -> Lost:
        how = f"took {overdue.allowed:g} s" if overdue.limit == "wall" else str(overdue)
        line = self._client.line(lambda dump: line_in(dump, self._code.file))
        text = f"A handler of {self._who()} did not return: it {how}{self._source.quote(line)}."
        return self._lost("timeout", f"{text} Is there a loop that never ends?", line, "the handler returns", how)

    def _diverged(self, told: dict[str, Any]) -> Lost:
        what = told.get("what") or ["?"]
        first, again = told.get("first") or [], told.get("again") or []
        other = next((n for n in range(max(len(first), len(again))) if first[n : n + 1] != again[n : n + 1]), 0)
        one, two = (
            told_of.in_words(effects[other]) if other < len(effects) else "nothing" for effects in (first, again)
        )
        effect = next((effects[other] for effects in (first, again) if other < len(effects)), None)
        line = effect[-1] if effect and isinstance(effect[-1], int) else None
        return self._lost(
            "nondeterministic",
            f"{plain(told.get('node'))} got the same inputs twice and behaved differently. On {told_of.given(what)} it "
            f"did {one} the first time, and {two} the second time{self._source.quote(line)}. Handlers may depend only "
            "on what the node was given. Use self.random and self.now() instead of time, uuid or random.",
            line, one, two,
        )  # fmt: skip

    def close(self) -> None:
        self._client.close()
