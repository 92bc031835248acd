"""Nodes in a box: the grading process's side. What comes from there is a learner's to make up, and read with care."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from grader.nodes import told as told_of
from grader.nodes.actors import Asked, Branch, Turn, named, past_asked, turn_asked
from grader.nodes.life import Birth, Step
from grader.sandbox.limits import MIB, BoxLimits
from grader.sandbox.party import NONSENSE, Beyond, Party, plain
from grader.sandbox.warm import Warm
from grader.submission import Source
from grader.trace.trouble import Trouble
from grader.verdict import Diagnosis, Kind

TICK_SECONDS = 0.1
BOX = BoxLimits(memory_bytes=1024 * MIB)


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


@dataclass
class Allowance:
    """What all boxes of one grading may take together, in seconds: waiting for answers, and of that in requests that
    stood still for long. Each handler may be within its limits, and ten thousand of them take hours."""

    wait_seconds: float = 300.0
    still_seconds: float = 15.0
    LONG = 0.5  # seconds that a request may stand still; a busy machine does that, too

    def take(self, wall: float, cpu: float) -> str:
        """Count one request. Returns what was used up; "" if nothing was."""
        self.wait_seconds -= wall
        if wall - cpu > self.LONG:
            self.still_seconds -= wall - cpu
            if self.still_seconds < 0:
                return "handlers stood still again and again: do they sleep?"
        return "" if self.wait_seconds >= 0 else "handlers took too long, all together"


class Boxed:
    """Nodes in one process of a box; implements `actors.Actors`.

    Raises Trouble where that process is of no use any more, and from then on. Close it.
    """

    def __init__(
        self, warm: Warm, code: Code, watched: tuple[str, ...] = (), limits: Limits | None = None,
        allowance: Allowance | None = None,
    ) -> None:  # fmt: skip
        self.watched, self._code, self._limits = watched, code, limits or Limits()
        self._allowance = allowance or Allowance()
        self._source = Source(code.file, code.source)
        self._asked: list[Asked] = []  # what was posted last
        self._posted = (0.0, 0.0)
        self.blamed = 0
        self.trouble: Trouble | None = None
        self.loaded = False  # whether there is a program that could make nodes
        self._party = Party(warm, 1, self._limits.box, self._limits.idle_seconds, self._limits.stdout_bytes)
        self._box = self._party.box
        self.printed = self._party.printed[0]
        try:
            self.problems = self._load()
            self.loaded = True
        except Trouble as trouble:
            self.trouble, self.problems = trouble, {}

    # ---- what is asked

    def _load(self) -> dict[str, str]:
        start = {"by": "grader.nodes.host", "source": self._code.source, "file": self._code.file,
                 "classes": self._code.classes, "watched": self.watched}  # fmt: skip
        self._posted = self._now()
        self._party.post(0, start)
        told = self._await("loaded")
        problems = told.get("problems")
        if not isinstance(problems, dict) or not problems.keys() <= set(self._code.classes):
            raise self._violation("sent what is no answer")
        return {str(name): str(why)[:200] for name, why in problems.items()}

    def hopeless(self) -> Diagnosis | None:
        """Why no node can be made at all; None if some can."""
        if self.trouble is not None:
            return self.trouble.diagnosis
        if len(self.problems) == len(self._code.classes):
            name = self._code.classes[0]
            text = f"{self._code.file}: {self.problems[name]}."
            return Diagnosis("missing_function", text, file=self._code.file, expected=f"class {name}(Node)")
        return None

    def missing(self, birth: Birth | None) -> Trouble | None:
        """Why a life cannot begin: there is no such class."""
        if birth is None or birth.kind not in self.problems:
            return None
        text = f"{self._code.file}: {self.problems[birth.kind]}."
        return Trouble(Diagnosis("missing_function", text, file=self._code.file, expected=f"class {birth.kind}(Node)"))

    def post(self, asked: Sequence[Asked], over: Sequence[str] = ()) -> None:
        """Ask for what nodes do, and say which worlds are over. `answers` must be called next."""
        self._asked = list(asked)
        self._posted = self._now()
        if self.trouble is None:
            self._party.post(0, {"asked": self._asked, "over": list(over)})

    def answers(self) -> list[Step | Branch | Trouble]:
        """What was posted last, answered one by one: a Trouble is of that one alone. Raises Trouble where the process
        is of no use any more; then `blamed` is the number of what it was doing."""
        told = self._await("answers").get("answers")
        self.blamed = 0
        if not isinstance(told, list) or len(told) != len(self._asked):
            self.trouble = self._violation("sent what is no answer")
            raise self.trouble
        found: list[Step | Branch | Trouble] = []
        for number, (asked, one) in enumerate(zip(self._asked, told, strict=True)):
            try:
                if asked[0] == "turn":
                    found.append(told_of.step(one, self.watched))
                elif isinstance(one, dict) and "diverged" in one:
                    found.append(self._diverged(one["diverged"]))
                else:
                    found.append(told_of.branch(one, self.watched))
            except NONSENSE:
                self.blamed = number
                self.trouble = self._violation("sent what is no answer")
                raise self.trouble from None
        return found

    def _all(self, asked: Sequence[Asked], over: Sequence[str] = ()) -> list[Any]:
        self.post(asked, over)
        found = self.answers()
        for one in found:
            if isinstance(one, Trouble):
                raise one
        return found

    def turns(self, turns: Sequence[Turn]) -> list[Step]:
        for turn in turns:
            if missing := self.missing(turn.birth):
                raise missing
        return self._all([turn_asked("", turn) for turn in turns])

    def forget(self) -> None:
        self._all([], [""])

    def branch(self, birth: Birth, past: int, what: list[Any], now: float) -> Branch:
        if missing := self.missing(birth):
            raise missing
        (found,) = self._all([past_asked("", birth, past, what, now)])
        return found  # type: ignore[no-any-return]

    # ---- the process

    def _now(self) -> tuple[float, float]:
        """The box's CPU seconds and the time."""
        return self._box.cpu[0], time.monotonic()

    def _await(self, event: str) -> dict[str, Any]:
        """Wait for the answer to what was posted. Raises Trouble."""
        if self.trouble is not None:
            raise self.trouble
        try:
            return self._awaited(event)
        except Trouble as trouble:
            self.trouble = trouble
            self.blamed = min(max(0, self._box.number_of(0)), max(0, len(self._asked) - 1))
            raise
        except Beyond as beyond:
            self.trouble = self._beyond(beyond.limit, beyond.used, beyond.allowed)
            self.blamed = min(max(0, self._box.number_of(0)), max(0, len(self._asked) - 1))
            raise self.trouble from None
        except NONSENSE:
            self.trouble = self._violation("sent what is no answer")
            raise self.trouble from None

    def _awaited(self, event: str) -> dict[str, Any]:
        before, started = self._posted
        news, seen, next_tick = time.monotonic(), before, started + TICK_SECONDS
        inbox = self._party.inbox[0]
        while not inbox:
            if self._party.read(max(0.01, next_tick - time.monotonic())):
                news = time.monotonic()
            if self._party.status and not inbox:
                raise self._died(self._party.status[0])
            now = time.monotonic()
            if now < next_tick:
                continue
            next_tick = now + TICK_SECONDS
            if self._box.cpu[0] > seen:
                seen, news = self._box.cpu[0], now
            if self._box.cpu[0] - before > self._limits.cpu_seconds:
                raise self._endless(f"used {self._limits.cpu_seconds:g} s of CPU time")
            if now - started > self._limits.wait_seconds:
                raise self._endless(f"took {self._limits.wait_seconds:g} s")
            if now - news > self._limits.idle_seconds:
                raise self._endless(f"stood still for {self._limits.idle_seconds:g} s")
        told: dict[str, Any] = inbox.pop(0).header
        cpu, now = self._now()
        used_up = self._allowance.take(now - started, cpu - before)
        if used_up and event != "loaded":
            raise self._trouble_of("timeout", f"The nodes were ended, last {self._who()}: {used_up}")
        if told.get("event") == "raised":
            raise self._not_loaded(told)
        if told.get("event") != event:
            raise self._violation("sent what is no answer")
        return told

    # ---- what went wrong

    def _who(self) -> str:
        number = self._box.number_of(0)
        return named(self._asked[number]) if 0 <= number < len(self._asked) else "the program"

    def _line(self) -> int | None:
        """Where the process is now, by its own stack dump."""
        self._box.ask_for_stacks()
        deadline = time.monotonic() + 0.5
        while time.monotonic() < deadline:
            found = re.search(rf'File "{re.escape(self._code.file)}", line (\d+)', self._box.text_of(0))
            if found:
                return int(found.group(1))
            time.sleep(0.02)
        return None

    def _trouble_of(
        self, kind: Kind, message: str, line: int | None = None, expected: str = "", got: str = ""
    ) -> Trouble:
        return Trouble(Diagnosis(kind, message, None, self._code.file, line, expected or None, got or None))

    def _endless(self, how: str) -> Trouble:
        line = self._line()
        text = f"A handler of {self._who()} did not return: it {how}{self._source.quote(line)}."
        return self._trouble_of("timeout", f"{text} Is there a loop that never ends?", line, "the handler returns", how)

    def _died(self, status: int) -> Trouble:
        how = f"ended with exit status {status}"
        if status < 0:
            how = f"was killed by {signal.Signals(-status).name if -status in signal.valid_signals() else -status}"
        return self._trouble_of("crash", f"The process of the nodes {how}, in a handler of {self._who()}.")

    def _beyond(self, limit: str, used: float, allowed: float) -> Trouble:
        who = self._who()
        if limit == "printing":
            return self._violation(f"went on printing beyond {allowed:g} bytes")
        if limit == "memory":
            text = f"Out of memory: the nodes used {used / MIB:,.0f} MiB where {allowed / MIB:,.0f} MiB are allowed"
            return self._trouble_of("out_of_memory", f"{text}, last in a handler of {who}.")
        if limit == "cpu":
            return self._trouble_of(
                "timeout", f"The nodes used {used:.1f} s of CPU time where {allowed:g} s are allowed."
            )
        return self._trouble_of(
            "sandbox_violation", f"{who} had {used:g} processes and threads where {allowed:g} are allowed."
        )

    def _not_loaded(self, told: dict[str, Any]) -> Trouble:
        line = told.get("line") if isinstance(told.get("line"), int) else None
        name, text = plain(told.get("type"))[:100], plain(told.get("text"))
        place, file = self._source.quote(line), self._code.file
        if told.get("stage") == "compile":
            return self._trouble_of("syntax_error", f"{file} is not valid Python: {name}: {text}{place}.", line)
        return self._trouble_of("crash", f"{file} raised {name}: {text}{place} when it was loaded.", line)

    def _diverged(self, told: dict[str, Any]) -> Trouble:
        what = told.get("what") or ["?"]
        first, again = told.get("first") or [], told.get("again") or []
        other = next((n for n in range(max(len(first), len(again))) if first[n : n + 1] != again[n : n + 1]), 0)
        one, two = (
            told_of.in_words(effects[other]) if other < len(effects) else "nothing" for effects in (first, again)
        )
        effect = next((effects[other] for effects in (first, again) if other < len(effects)), None)
        line = effect[-1] if effect and isinstance(effect[-1], int) else None
        return self._trouble_of(
            "nondeterministic",
            f"{plain(told.get('node'))} did not do the same when the same things happened to it again: on "
            f"{told_of.given(what)} it did {one} the first time, and {two} the second{self._source.quote(line)}. "
            "Handlers may depend on nothing but what the node was given: use self.random and self.now(), not time, "
            "uuid or random.",
            line, one, two,
        )  # fmt: skip

    def _violation(self, what: str) -> Trouble:
        return self._trouble_of("sandbox_violation", f"The submission {what}.")

    def close(self) -> None:
        self._party.close()

    def __enter__(self) -> Boxed:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
