"""One world of real ranks, watched from outside until each rank has returned, broken down or is stuck for ever."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import selectors
import socket
import time
from collections.abc import Sequence
from typing import Any

from grader.ranks import blame, endings, traffic
from grader.ranks.account import Account, Broken, RankState, tidy
from grader.ranks.program import Call, CallResult, Ending, Limits, Program, Run, from_bytes, to_bytes
from grader.ranks.traffic import Traffic
from grader.sandbox import frames
from grader.sandbox.party import NONSENSE
from grader.sandbox.warm import Box
from grader.trace.events import Trace
from grader.verdict import Diagnosis

LOG = logging.getLogger(__name__)
QUIET_SECONDS = 0.1  # how long stuck ranks must stay silent before they are called stuck
TICK_SECONDS = 0.1
GRACE_SECONDS = 1.0  # how long the others may go on after one rank has broken


class World(Account):
    """A world whose ranks are processes of a box, one each."""

    def __init__(
        self,
        box: Box,
        program: Program,
        ranks: int,
        seed: int,
        limits: Limits,
        idle_machine: bool,
        backend: str = "gloo",
    ) -> None:
        self.backend = backend
        super().__init__(program, ranks)
        self.box, self.seed, self.limits = box, seed, limits
        self.idle_machine = idle_machine
        self.finished: list[CallResult] = []
        self.loaded, self.received = False, 0
        self.traffic: Traffic | None = None
        self.started = self.last_news = self.last_frame = self.first_breakage = self.cpu_seen = 0.0
        for channel in box.frames:
            channel.settimeout(limits.idle_seconds)  # for a rank that does not read what it is sent
        self.watch = selectors.DefaultSelector()
        self.watch.register(box.keeper, selectors.EVENT_READ, ("keeper", -1))
        for rank in range(len(box.frames) if self.shared else ranks):
            for kind, source in (("frames", box.frames), ("stdout", box.stdout), ("stderr", box.stderr)):
                self.watch.register(source[rank], selectors.EVENT_READ, (kind, rank))

    # ---- the life of a world

    def live(self, calls: Sequence[Call]) -> Run:
        ending: Ending = "finished"
        try:
            with self.watch:
                self._start()
                for call in calls:
                    self._call(call)
                self._read_what_was_printed()
        except Broken as broken:
            ending = broken.ending
            self.diagnoses = tidy([broken.diagnosis, *self._in_rank_order()])
        except NONSENSE as error:  # what ranks say is theirs to make up; whatever does not fit is no answer
            ending = "crashed"
            LOG.info("what a rank sent could not be read", exc_info=error)
            if not isinstance(error, frames.FrameError):
                error = frames.FrameError(f"{type(error).__name__} when it was read")
            self.diagnoses.insert(0, self._violation(f"sent what is no frame ({error})"))
        return Run(
            self.size, ending, tuple(self.finished), self.trace, tuple(tidy(self.diagnoses)),
            tuple(bytes(rank.stdout).decode(errors="replace") for rank in self.ranks),
            tuple(bytes(rank.stderr).decode(errors="replace") for rank in self.ranks),
            tuple(self.ring),
            tuple((number, word) for number, rank in enumerate(self.ranks) if (word := rank.mark)),
            self.loaded,
        )  # fmt: skip

    def _start_header(self) -> dict[str, Any]:
        """What every rank is told first."""
        return {
            "world": self.size,
            "source": self.program.source,
            "file": self.program.file,
            "functions": [(function.name, function.parameters) for function in self.program.functions],
            "p2p_only": self.program.p2p_only,
            "own_group": self.program.own_group,
            "apart": self.program.apart,
            "shared_memory": not self.box.scratch,  # only a box with mounts of its own needs no folder outside
            "harness": self.program.harness,
            "banned": self.program.banned,
            "backend": self.backend,
            "seed": self.seed,
            "yield_to_ranks": self.idle_machine,
        }

    def _start(self) -> None:
        header = self._start_header()
        for rank in range(self.size):
            self._tell(rank, header)
        self._until_settled({"loaded"})
        self._check_loaded()
        self.traffic = self._traffic() if self.program.p2p_only else None

    def _check_loaded(self) -> None:
        """Raise Broken where the program has no function that can be called."""
        names = [function.name for function in self.program.functions]
        self.loaded = not names or any(name not in self.problems for name in names)
        if not self.loaded:
            raise self._missing(names[0])

    def _missing(self, name: str) -> Broken:
        parameters = next(function.parameters for function in self.program.functions if function.name == name)
        message = f"{self.program.file}: {self.problems[name]}."
        expected = f"def {name}({', '.join(('...',) if parameters is None else parameters)})"
        return Broken(Diagnosis("missing_function", message, file=self.program.file, expected=expected), "crashed")

    def _call(self, call: Call) -> None:
        function = self._begin_call(call)
        for number, rank in enumerate(self.ranks):
            rank.cpu_before = self._cpu(number)
            tree, blob = frames.encode(list(call.arguments[number]), to_bytes)
            self._tell(number, {"function": function, "by": call.by, "arguments": tree}, blob)
        self._until_settled({"returned"})
        self._compare_traffic()
        self.diagnoses = self._in_rank_order()
        values = [self._value(rank) for rank in self.ranks]
        self.finished.append(
            CallResult(
                tuple(tuple(arguments) for arguments, _ in values),
                tuple(returned for _, returned in values),
                self.trace,
                self._found(),
                peak_bytes=tuple(self._peak(rank.result) for rank in self.ranks if rank.result is not None),
            )
        )

    def _traffic(self) -> Traffic | None:
        """What the kernel has counted up to now in this box's network; None where others share it."""
        self.heard: list[Traffic | None] = []
        with contextlib.suppress(OSError):
            self.box.keeper.send(b"traffic")
        deadline = time.monotonic() + self.limits.idle_seconds
        while not self.heard and time.monotonic() < deadline:
            self._read(TICK_SECONDS)
        return self.heard[0] if self.heard else None

    def _compare_traffic(self) -> None:
        """Raise Broken where the kernel counted other bytes than the ranks recorded."""
        if self.traffic is None:
            return
        before, self.traffic = self.traffic, self._traffic()
        if self.traffic is None:
            raise Broken(self._violation("could not be watched"), "crashed")
        found = traffic.contradiction(self.traffic.since(before), self.trace)
        if found:
            raise Broken(blame.not_what_was_carried(found, self.source), "crashed")

    def _begin_call(self, call: Call) -> str:
        """Make ready for a call. Returns the function's name. Raises Broken if it cannot be called."""
        self.trace = Trace(self.size, groups=dict(self.groups), virtual=self.shared)
        self.diagnoses, self.received, self.reports = [], 0, 0
        function = call.function or next((function.name for function in self.program.functions), "")
        if function in self.problems:
            raise self._missing(function)
        for rank in self.ranks:
            rank.state, rank.events, rank.operations, rank.blocked, rank.result = "running", [], {}, None, None
        return function

    @staticmethod
    def _peak(result: frames.Message) -> int:
        peak = result.header.get("peak", 0)
        return peak if isinstance(peak, int) and peak >= 0 else 0

    def _value(self, rank: RankState) -> tuple[list[Any], Any]:
        assert rank.result is not None
        value = frames.decode(rank.result.header.get("value"), rank.result.blob, from_bytes)
        if not isinstance(value, list) or len(value) != 2 or not isinstance(value[0], list):
            raise frames.FrameError("a result of another shape")
        return value[0], value[1]

    def _tell(self, rank: int, header: dict[str, Any], blob: bytes = b"") -> None:
        with contextlib.suppress(OSError):  # a rank that is gone is noticed by its keeper
            self.box.frames[rank].sendall(frames.pack_message(header, blob))

    # ---- watching

    def _until_settled(self, good: set[str]) -> None:
        """Read until every rank is in a state of `good`. Raises Broken when that cannot happen any more."""
        started = self.started = self.last_news = self.last_frame = time.monotonic()
        self.first_breakage = 0.0
        next_tick = started + TICK_SECONDS
        while not all(rank.state in good for rank in self.ranks):
            self._read(min(QUIET_SECONDS, max(next_tick - time.monotonic(), 0.01)))
            now = time.monotonic()
            if now >= next_tick:
                next_tick = now + TICK_SECONDS
                self._enforce_limits(now)
            broken = any(rank.broken for rank in self.ranks)
            self.first_breakage = self.first_breakage or (now if broken else 0.0)
            patience_over = self.first_breakage and now - self.first_breakage > GRACE_SECONDS
            quiet = now - self.last_news >= QUIET_SECONDS
            if not quiet and not patience_over and not (broken and all(rank.over for rank in self.ranks)):
                continue
            stuck = self._stuck()
            going = [n for n, r in enumerate(self.ranks) if not r.over and r.state not in good and n not in stuck]
            if patience_over or blame.cycle(stuck) or (not going and (stuck or any(r.fallen for r in self.ranks))):
                raise endings.explain(self, stuck)
        self._work_in_events()

    def _read(self, timeout: float) -> None:
        for key, _ in self.watch.select(timeout):
            kind, number = key.data
            if kind == "keeper":
                self._keeper_says(self.box.keeper.recv(65536))
                continue
            rank = self.ranks[number]
            try:
                data = os.read(key.fd, 2**18)
            except BlockingIOError:
                continue
            except ConnectionResetError:
                data = b""
            if not data:
                self.watch.unregister(key.fileobj)
            elif kind == "frames":
                self.last_news = self.last_frame = time.monotonic()
                self._frames(number, rank, data)
            else:
                self._printed(number, rank, kind, data)

    def _keeper_says(self, data: bytes) -> None:
        if not data:
            self.watch.unregister(self.box.keeper)
            if not all(rank.over for rank in self.ranks):
                raise Broken(self._violation("ended the process that watches over the ranks"), "crashed")
            return
        message = json.loads(data)
        if "up" in message:
            return
        if "carried" in message:
            told = message["carried"]
            self.heard = [None if told is None else Traffic(told, tuple(message["received"]))]
            return
        if "cpu" in message:
            self.box.cpu = message["cpu"]
            return
        if "limit" in message:
            raise self._beyond(message)
        rank = self.ranks[message["rank"]]
        while not rank.over and self._drain(message["rank"]):
            pass  # what it sent before it ended counts
        if not rank.over or rank.state == "returned":
            rank.state, rank.status, rank.blocked = "dead", message["status"], None
        self.last_news = time.monotonic()

    def _beyond(self, told: dict[str, Any]) -> Broken:
        """The box as a whole took more than it may, and was ended."""
        number = min(told["rank"], self.size - 1) if not self.shared else self._running()
        line = self._stack_of(number, self.box.text_of(told["rank"]))
        with contextlib.suppress(frames.FrameError):
            self._work_in_events()
        found, ending = blame.beyond(told["limit"], told["used"], told["allowed"], number, line, self.source)
        return Broken(found, ending)

    def _running(self) -> int:
        """In a world whose ranks share a process, the one that runs."""
        return 0

    def _drain(self, number: int) -> bool:
        """Read what is left in an ended rank's frame socket."""
        try:
            data = self.box.frames[number].recv(2**18, socket.MSG_DONTWAIT)  # a child of it may hold the other end
        except OSError:
            return False
        self._frames(number, self.ranks[number], data)
        return bool(data)

    def _frames(self, number: int, rank: RankState, data: bytes) -> None:
        self.received += len(data)
        if self.received > self.limits.frame_bytes:
            how = f"went on sending results and records beyond {self.limits.frame_bytes / 2**20:g} MiB"
            raise Broken(self._violation(how, number), "crashed")
        for frame in rank.reader.feed(data):
            if isinstance(frame, frames.Events):
                rank.events.append(frame)
            else:
                self._message(number, rank, frame)

    def _read_what_was_printed(self) -> None:
        """Read what is already in the pipes: output comes by another way than the word that a rank is done."""
        while any(key.data[0] in ("stdout", "stderr") for key, _ in self.watch.select(0)):
            self._read(0)

    def _printed(self, number: int, rank: RankState, kind: str, data: bytes) -> None:
        kept = rank.stdout if kind == "stdout" else rank.stderr
        if len(kept) < self.limits.stdout_bytes:
            kept += data[: self.limits.stdout_bytes - len(kept)]
        if sum(len(r.stdout) for r in self.ranks) >= self.limits.stdout_bytes:
            how = f"went on printing when all ranks together had printed {self.limits.stdout_bytes} bytes"
            raise Broken(self._violation(how, number), "crashed")

    # ---- limits and endings

    def _cpu(self, number: int) -> float:
        """CPU seconds that rank `number`'s process has used, by its keeper's latest word."""
        return self.box.cpu[number]

    def _enforce_limits(self, now: float) -> None:
        used = [self._cpu(number) for number in range(self.size)]
        if sum(used) > self.cpu_seen:
            self.cpu_seen, self.last_news = sum(used), now  # who computes does not stand still
        for number, rank in enumerate(self.ranks):
            loading = rank.state == "starting"
            allowed = self.limits.load_cpu_seconds if loading else self.limits.cpu_seconds
            if not rank.over and used[number] - rank.cpu_before > allowed:
                raise self._timed_out(number, f"used {allowed:g} s of CPU time")
        how = self._too_silent(now)
        if how:
            raise self._timed_out(next(n for n, rank in enumerate(self.ranks) if not rank.over), how)

    def _too_silent(self, now: float) -> str:
        """What lasted for too long: that nobody did anything, or that nobody communicated. "" if neither did."""
        if now - self.last_news > self.limits.idle_seconds:
            return f"stood still for {self.limits.idle_seconds:g} s"
        if now - self.last_frame > self.limits.silent_seconds:
            return f"neither sent nor received anything for {self.limits.silent_seconds:g} s"
        if now - self.started > self.limits.wall_seconds:
            return f"was not done after {self.limits.wall_seconds:g} s"
        return ""

    def _timed_out(self, number: int, how: str) -> Broken:
        line = self._line_of(number)
        self._hear_what_was_done()
        with contextlib.suppress(frames.FrameError):
            self._work_in_events()
        return Broken(blame.timed_out(number, line, self.trace, self.source, how), "timed_out")

    def _hear_what_was_done(self) -> None:
        """Have everything been told that the ranks have recorded; real ranks tell before they block."""

    def _line_of(self, number: int) -> int | None:
        """Where rank `number` is now, by its own stack dump."""
        self.box.ask_for_stacks()
        deadline = time.monotonic() + 0.5
        while time.monotonic() < deadline:
            line = self._stack_of(number, self.box.text_of(0 if self.shared else number))
            if line is not None:
                return line
            self._read(0.02)
        return None

    def _stack_of(self, number: int, dump: str) -> int | None:
        """The innermost line of the submission in a dump of rank `number`'s process."""
        found = re.search(rf'File "{re.escape(self.source.file)}", line (\d+)', dump)
        return int(found.group(1)) if found else None
