"""The processes of one box, as the grading process hears them: messages, what they print, how they end.

The one reader of a box. What comes from there is a learner's to make up; who uses it reads it with care.
"""

from __future__ import annotations

import contextlib
import json
import math
import operator
import os
import re
import selectors
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from grader.sandbox import frames
from grader.sandbox.warm import Box, Unwatched

# what reading an answer that no process of ours gives can raise
NONSENSE = (ValueError, TypeError, LookupError, ArithmeticError, AttributeError, RecursionError)
TICK_SECONDS = 0.1  # between two looks at what an answer has taken
FRESH_SECONDS = 0.5  # how old what the keeper has seen may be where an answer is called overdue
MOST_STRETCH = 10.0  # so many times what is allowed is the end, however busy the machine is
LOOKS_FOR_TRAFFIC = 600  # counted, not timed: where the whole machine stood still, no time was given to the keeper
STACK_SECONDS = 0.5
MOST_BYTES = 2**29  # that a box may send before the next question
Heard = Callable[[int, str, bytes], None]
Limit = Literal["cpu", "turn", "idle", "silent", "wall"]
TOLD: dict[Limit, str] = {
    "cpu": "used more than {:g} s of CPU time",
    "turn": "used {:g} s of CPU time without sending, receiving or waiting",
    "idle": "stood still for {:g} s",
    "silent": "neither sent nor received anything for {:g} s",
    "wall": "was not done after {:g} s",
}


def plain(told: Any, most: int = 1000) -> str:
    """Text that a learner's process made up, without what would be an order to a terminal or no XML."""
    return "".join(c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in str(told)[:most])


def line_in(dump: str, file: str) -> int | None:
    """The innermost line of a file in a dump of a stack."""
    found = re.search(rf'File "{re.escape(file)}", line (\d+)', dump)
    return int(found.group(1)) if found else None


class Beyond(Exception):  # noqa: N818 - reads as what happened
    """A limit of the whole box was passed, and the box has been ended or is to be: which ("memory", "cpu", "processes"
    or "printing"), what was used, what is allowed, and which process had most to do with it."""

    def __init__(self, limit: str, used: float, allowed: float, number: int = 0) -> None:
        super().__init__(limit)
        self.limit, self.used, self.allowed, self.number = limit, used, allowed, number


class NoAnswer(Exception):  # noqa: N818 - reads as what happened
    """A process did not answer."""


class Gone(NoAnswer):
    """It has ended, with this status."""

    def __init__(self, status: int) -> None:
        super().__init__(str(status))
        self.status = status


class Overdue(NoAnswer):
    """It took more than it may: of what, and how much is allowed."""

    def __init__(self, limit: Limit, allowed: float) -> None:
        super().__init__(TOLD[limit].format(allowed))
        self.limit, self.allowed = limit, allowed


@dataclass(frozen=True)
class Patience:
    """How long an answer is waited for, in seconds: CPU time of the one who is asked, in all and since it last took
    turns; in which nobody in the box computes or says anything; in which nobody says anything; in all. Time in which
    a process of the box was ready to run and had no processor counts for none of them, as long as it is not by far the
    most of it: what a verdict is, is not for the rest of the machine to decide."""

    cpu: float = math.inf
    idle: float = math.inf
    silent: float = math.inf
    wall: float = math.inf
    turn: float = math.inf


class Moment(NamedTuple):
    """When it was, and for how many seconds a process had computed by then, and had waited for a processor."""

    at: float
    cpu: float
    delayed: float = 0.0

    def stood_still(self, until: Moment) -> float:
        """For how many seconds the process neither computed nor was ready to."""
        return (until.at - self.at) - (until.cpu - self.cpu) - (until.delayed - self.delayed)


class Printed:
    """What each process has printed; more than `most` bytes on all their stdouts together are Beyond "printing".

    `heard` is told of everything: whose it is, the stream and the bytes.
    """

    heard: Heard | None = None

    def __init__(self, processes: int, most: int) -> None:
        self._most = most
        self._texts = [{"stdout": bytearray(), "stderr": bytearray()} for _ in range(processes)]

    def add(self, number: int, stream: str, data: bytes) -> None:
        if self.heard is not None:
            self.heard(number, stream, data)
        kept = self._texts[number]["stdout" if stream == "stdout" else "stderr"]
        kept += data[: self._most - len(kept)]
        printed = sum(len(each["stdout"]) for each in self._texts)
        if printed >= self._most:
            raise Beyond("printing", printed, self._most, number)

    def text(self, stream: Literal["stdout", "stderr"], number: int = 0, since: int = 0) -> str:
        return self._texts[number][stream][since:].decode(errors="replace")

    def lengths(self, stream: Literal["stdout", "stderr"]) -> list[int]:
        """How many bytes there are of each process up to now."""
        return [len(each[stream]) for each in self._texts]

    def forget(self) -> None:
        for each in self._texts:
            each["stdout"].clear()


class Client:
    """Talks with the processes of a box. Close it, or detach it from a box that is to go on.

    `inbox` holds each process's messages that were not taken yet, `status` how those ended that have. With `take`,
    that gets every frame in place of the inbox, as it comes. Raises Beyond, FrameError, and what else nonsense from a
    box brings about. `printers` are how many print, where that is not each process of the box.
    """

    def __init__(
        self,
        box: Box,
        idle_seconds: float,
        stdout_bytes: int,
        most_bytes: int = MOST_BYTES,
        take: Callable[[int, frames.Message | frames.Events], None] | None = None,
        printers: int = 0,
    ) -> None:
        processes = len(box.frames)
        self.box, self._most_bytes, self._take = box, most_bytes, take
        self.inbox: list[deque[frames.Message]] = [deque() for _ in range(processes)]
        self.printed = Printed(printers or processes, stdout_bytes)
        self.status: dict[int, int] = {}
        self.kept = True  # whether the box's keeper is there
        self.received = 0  # bytes, since the last question
        self.last_frame = self.last_news = time.monotonic()  # news: also that somebody computes, or has ended
        self._asked_at, self._stand_still = 0.0, False  # when the keeper was asked to look, and what it saw
        self._looked_at = 0.0  # when it last answered
        self._delayed = self.box.delayed  # what it had said of each process's delays when the last frame came
        self._carried: list[dict[str, Any]] = []
        self._readers = [frames.Reader() for _ in range(processes)]
        self._watch = selectors.DefaultSelector()
        self._watch.register(box.keeper, selectors.EVENT_READ, ("keeper", -1))
        for number in range(processes):
            box.frames[number].settimeout(idle_seconds)  # for one that does not read what it is sent
            for kind, source in (("frames", box.frames), ("stdout", box.stdout), ("stderr", box.stderr)):
                self._watch.register(source[number], selectors.EVENT_READ, (kind, number))

    # ---- what is asked

    def post(self, number: int, header: dict[str, Any], blob: bytes = b"") -> None:
        """Send a process a message. Nothing where it ended: the keeper says how."""
        self.send(number, frames.pack_message(header, blob))

    def send(self, number: int, frame: bytes) -> None:
        """Send a process a message that is packed already."""
        self.received = 0
        with contextlib.suppress(OSError):
            self.box.frames[number].sendall(frame)

    def end(self, number: int) -> None:
        """Kill one process; the others go on."""
        with contextlib.suppress(OSError):
            self.box.keeper.put(b"end %d" % number)

    def moment(self, number: int) -> Moment:
        """Now, from which a process's answer may be counted."""
        return Moment(time.monotonic(), self.box.cpu[number], self.box.delayed[number])

    def wait(
        self, number: int, patience: Patience, since: Moment | None = None, turns: Callable[[], int] | None = None
    ) -> frames.Message:
        """A process's next message. Raises NoAnswer. It is waited for from `since` on, or from now on.

        `turns` is a count of the process's own, for `patience.turn`.
        """
        turn = since = since or self.moment(number)
        counted = turns() if turns is not None else 0
        self.listen()
        while not self.inbox[number]:
            if number in self.status:
                raise Gone(self.status[number])
            left = since.at + patience.wall - time.monotonic()
            self.read(min(TICK_SECONDS, left if left > 0 else TICK_SECONDS))
            if turns is not None and turns() != counted:
                turn, counted = self.moment(number), turns()
            passed = self.passed(number, patience, since, turn)
            if passed is not None and not self.inbox[number]:
                raise passed
        return self.inbox[number].popleft()

    def listen(self) -> None:
        """Something is waited for from now on: silence before does not count."""
        self.last_news = self.last_frame = time.monotonic()
        self._delayed = self.box.delayed

    def passed(self, number: int, patience: Patience, since: Moment, turn: Moment | None = None) -> Overdue | None:
        """Which limit was passed, if one was; `turn` is when it last took turns."""
        now = time.monotonic()
        computed = self.box.cpu[number]
        spent: dict[Limit, float] = {"cpu": computed - since.cpu, "turn": computed - (turn or since).cpu}
        for limit, used in spent.items():
            if used > getattr(patience, limit):
                return Overdue(limit, getattr(patience, limit))
        if now - self.last_news > patience.idle and self._all_stand_still():
            return Overdue("idle", patience.idle)
        starved = max(map(operator.sub, self.box.delayed, self._delayed))
        if self._over(now - self.last_frame, starved, patience.silent):
            return Overdue("silent", patience.silent)
        if self._over(now - since.at, self.box.delayed[number] - since.delayed, patience.wall):
            return Overdue("wall", patience.wall)
        return None

    def _over(self, waited: float, starved: float, allowed: float) -> bool:
        """Whether it was waited for too long; `starved` is for how much of it there was no processor. Not before the
        keeper has told that anew."""
        if waited <= allowed or waited > MOST_STRETCH * allowed:
            return waited > allowed
        if self.kept and time.monotonic() - self._looked_at > FRESH_SECONDS:
            self._ask_to_look()
            return False
        return waited - starved > allowed

    def _all_stand_still(self) -> bool:
        """Whether the keeper, asked after the last news, has seen nobody who computes or is ready to: on a busy machine
        its own news come late, too."""
        if self._asked_at <= self.last_news:
            self._stand_still = False
            self._ask_to_look()
        return self._stand_still or not self.kept

    def _ask_to_look(self) -> None:
        """Unless it was asked and has not answered yet."""
        if self._asked_at <= self._looked_at:
            self._asked_at = time.monotonic()
            with contextlib.suppress(OSError):
                self.box.keeper.put(b"look")

    def traffic(self) -> dict[str, Any]:
        """What the keeper says of the box's network. Raises Unwatched where it does not say anything."""
        self._carried.clear()
        with contextlib.suppress(OSError):
            self.box.keeper.put(b"traffic")
        for _ in range(LOOKS_FOR_TRAFFIC):
            if self._carried:
                return self._carried[0]
            if not self.kept:
                raise Unwatched("the process that watches the sandbox ended")
            self.read(TICK_SECONDS)
        raise Unwatched("the process that watches the sandbox did not answer")

    def line(self, find: Callable[[str], int | None], number: int = 0) -> int | None:
        """Where a process is now: what `find` finds in its own stack dump, if it does soon."""
        self.box.ask_for_stacks()
        deadline = time.monotonic() + STACK_SECONDS
        while time.monotonic() < deadline:
            line = find(self.box.text_of(number))
            if line is not None:
                return line
            self.read(0.02)
        return None

    # ---- what is heard

    def read(self, timeout: float) -> None:
        """Read what there is, after at most so many seconds."""
        for key, _ in self._watch.select(timeout):
            kind, number = key.data
            if kind == "keeper":
                self._keeper_says(self.box.keeper.take())
                continue
            try:
                data = os.read(key.fd, 2**18)
            except BlockingIOError:
                continue
            except ConnectionResetError:
                data = b""
            if not data:
                self._watch.unregister(key.fileobj)
            elif kind == "frames":
                self._feed(number, data)
            else:
                self.printed.add(number, kind, data)

    def read_what_was_printed(self) -> None:
        """Read what is already in the pipes: output comes by another way than the word that somebody is done."""
        while any(key.data[0] in ("stdout", "stderr") for key, _ in self._watch.select(0)):
            self.read(0)

    def _feed(self, number: int, data: bytes) -> None:
        self.listen()
        self.received += len(data)
        if self.received > self._most_bytes:
            raise Beyond("frames", self.received, self._most_bytes, number)
        for frame in self._readers[number].feed(data):
            if self._take is not None:
                self._take(number, frame)
            elif isinstance(frame, frames.Message):
                self.inbox[number].append(frame)

    def _keeper_says(self, data: bytes) -> None:
        if not data:
            self._watch.unregister(self.box.keeper)
            self.kept = False
            for number in range(len(self.inbox)):
                self.status.setdefault(number, 70)
            return
        told = json.loads(data)
        if "cpu" in told:
            if sum(told["cpu"]) > sum(self.box.cpu):
                self.last_news = time.monotonic()  # who computes does not stand still
            self.box.cpu, self.box.delayed = told["cpu"], told["delayed"]
        elif "ready" in told:
            self._looked_at, self._stand_still = time.monotonic(), not told["ready"]
            if told["ready"]:
                self.last_news = time.monotonic()
        elif "limit" in told:
            raise Beyond(told["limit"], told["used"], told["allowed"], told["rank"])
        elif "carried" in told:
            self._carried.append(told)
        elif "status" in told:
            number = told["rank"]
            self.hear_out(number)
            self.status[number] = told["status"]
            self.last_news = time.monotonic()

    def hear_out(self, number: int) -> None:
        """Take all that a process has sent up to now, as far as it is there. Raises what `read` raises."""
        while self._feed_now(number):
            pass

    def _feed_now(self, number: int) -> bool:
        """Take what a process sent before it ended; a child of it may hold the other end.

        Of the descriptor: the socket has a time limit, and would wait for more as long as that allows."""
        try:
            data = os.read(self.box.frames[number].fileno(), 2**18)
        except OSError:
            return False
        if data:
            self._feed(number, data)
        return bool(data)

    # ---- the end

    def detach(self) -> None:
        """Listen no more; the box goes on. What was half heard is let go now: a client and what takes its frames hold
        each other, and it may be hundreds of MiB."""
        self._watch.close()
        self._readers.clear()
        self._take = None

    def close(self) -> None:
        """End the box."""
        self.detach()
        self.box.end()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
