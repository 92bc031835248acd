"""The sim engine: any number of simulated ranks in one process of a box, in virtual time."""

from __future__ import annotations

import functools
import math
import re
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from grader.ranks import blame, endings
from grader.ranks.account import Broken
from grader.ranks.endless import RANK_BITS
from grader.ranks.faults import Fault
from grader.ranks.network import Network
from grader.ranks.program import Call, Limits, Program, from_bytes, to_bytes
from grader.ranks.world import World
from grader.sandbox import frames
from grader.sandbox.client import Gone, Overdue, Patience, line_in
from grader.sandbox.folder import Folder
from grader.sandbox.limits import BoxLimits
from grader.sandbox.warm import Box, Unwatched, Warm

LATEST_TRACE_SECONDS = 3.0  # how long to wait for the trace of a run that does not end
LATEST = 1e9  # virtual seconds
ROOM = 128  # for ranks, in a session's process
CPU_SECONDS_A_RANK = 0.1  # on top of the limit for one; on a busy machine the same takes three times as much


class NeedsProcesses(Exception):  # noqa: N818 - says what is the case
    """The program does something that only real processes can do, and why."""


class NeedsThreads(Exception):  # noqa: N818 - says what is the case
    """The program does something that its ranks cannot do as greenlets, and what."""


def folder_of(program: Program) -> Folder | None:
    """The folder in which a program is to work; None where it gets an empty one."""
    return program.place.folder if program.place is not None else None


class Session:
    """A box with one process, started when first needed, and anew after a run that did not end well."""

    def __init__(self, warm: Warm, processor: int) -> None:
        self._warm, self.processor = warm, processor
        self._box: Box | None = None
        self.beside: Box | None = None  # of real processes, that whoever has the session waits for
        self._room = 0
        self.threads = False  # whether its program was found to need them
        self.interrupted = False

    def box(self, limits: BoxLimits, ranks: int, imported: Sequence[str], folder: Folder | None = None) -> Box:
        """The box, anew if it has no room for so many ranks, which are a thread each. A session's programs are all of
        one folder."""
        if self._box is None or ranks > self._room:
            self.dismiss()
            self._room = max(ranks, ROOM)
            self._box = self._warm.box(1, replace(limits, processes=limits.processes + self._room), imported, folder)
        return self._box

    def interrupt(self) -> None:
        """From another thread: end what is waited for, as though it had ended itself."""
        self.interrupted = True
        for box in (self._box, self.beside):
            if box is not None:
                box.kill()

    def dismiss(self) -> None:
        """End the process."""
        if self._box is not None:
            self._box.end()
            self._box = None


class SimWorld(World):
    """The one process in which all ranks are simulated. Each time they have come to rest, it says how they stand."""

    virtual = True

    def __init__(
        self, box: Box, program: Program, ranks: int, seed: int, limits: Limits, network: Network,
        faults: Sequence[Fault], tracing: bool, processor: int, threads: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(box, program, ranks, seed, limits, faults)
        self._more = {
            "engine": "sim",
            "network": network.to_json(),
            "faults": [fault.to_json() for fault in faults],
            "trace": tracing,
            "processor": processor,
            "threads": threads,
        }
        self._traced = False  # whether it has told, out of turn, what its ranks have done
        self._threads: dict[int, int] = {}

    def _start(self) -> None:
        self.client.post(0, {**self._start_header(), **self._more})
        self._until_rest(self.limits.load_cpu_seconds)
        self._check_loaded()

    def _call(self, call: Call) -> None:
        function = self._begin_call(call)
        tree, blob = frames.encode([list(arguments) for arguments in call.arguments], to_bytes)
        self.client.post(0, {"function": function, "by": call.by, "arguments": tree}, blob)
        rest = self._until_rest(self.limits.cpu_seconds)
        values = frames.decode(rest.header.get("value"), rest.blob, from_bytes)
        if not isinstance(values, list) or len(values) != self.size:
            raise frames.FrameError("results of another shape")
        clocks = tuple(float(standing["clock"]) for standing in rest.header["ranks"])
        if not all(0 <= clock <= LATEST for clock in clocks):
            raise frames.FrameError("times that cannot be")
        self.account.trace.finish = tuple(int(clock * 1e9) for clock in clocks)
        self._finish_call(
            [(arguments, returned) for arguments, returned in values],
            [standing.get("peak", 0) for standing in rest.header["ranks"]],
            clocks,
        )

    def _until_rest(self, cpu_seconds: float) -> frames.Message:
        """Wait until all ranks have come to rest; `cpu_seconds` is for one. Raises Broken unless all returned."""
        account, limits = self.account, self.limits
        self.client.inbox[0].clear()
        cpu = cpu_seconds + CPU_SECONDS_A_RANK * self.size
        patience = Patience(cpu, limits.idle_seconds, limits.silent_seconds, limits.wall_seconds)
        turns = None
        if self.program.watched:  # ranks that take turns compute for each other, and say nothing on the way
            patience = replace(patience, cpu=cpu_seconds * self.size, turn=cpu_seconds, silent=math.inf)
            turns = functools.partial(self.client.box.number_of, 0)
        try:
            rest = self.client.wait(0, patience, turns=turns)
        except Gone as gone:
            if not self.client.kept:
                raise Unwatched("the process that watches the sandbox ended") from None
            raise Broken(blame.died(self._rank_in(0), gone.status, None, account.source), "crashed") from None
        except Overdue as overdue:
            how = str(overdue)
            if self.program.watched and overdue.limit == "cpu" and self.size > 1:
                how = f"was running when all ranks together had used {overdue.allowed:g} s of CPU time"
            raise self._timed_out(self._rank_in(0), 0, how) from None
        self._take_standings(rest.header)
        account.work_in_events()
        if not all(rank.state in ("returned", "loaded", "killed") for rank in account.ranks):
            raise endings.explain(account, account.stuck())
        if any(rank.state == "killed" for rank in account.ranks):
            account.diagnoses.append(endings.after_a_kill(account, {}).diagnosis)
        return rest

    def _take_standings(self, header: dict[str, Any]) -> None:
        standings = header.get("ranks")
        if not isinstance(standings, list) or len(standings) != self.size:
            raise frames.FrameError("not one standing a rank")
        for number, standing in enumerate(standings):
            try:
                self.account.ranks[number].state = standing["state"]
                self._threads[number] = int(standing["thread"])
                if standing["raised"]:
                    self._take(number, frames.Message(standing["raised"]))
            except (KeyError, TypeError, ValueError):
                raise frames.FrameError("a standing that does not fit") from None
        self.account.take_problems(header.get("problems", {}))

    def _take(self, number: int, frame: frames.Message | frames.Events) -> None:
        if isinstance(frame, frames.Events):
            self.account.take(number, frame)
            return
        header = frame.header
        about = header.get("rank", number)
        if not isinstance(about, int) or not 0 <= about < self.size:
            raise frames.FrameError("a message about no rank of this world")
        match header.get("event"):
            case "rest":
                self.client.inbox[0].append(frame)
            case "trace":
                self.account.take(about, frames.Events(frame.blob))
            case "traced":
                self._traced = True
            case "carried":
                self.account.trace.carried[about, int(header.get("number", -1))] = frame.blob
            case "needs_processes":
                raise NeedsProcesses(str(header.get("why")))
            case "needs_threads" if not self._more["threads"]:
                raise NeedsThreads(str(header.get("why")))
            case "printed":
                self.client.printed.add(about, str(header.get("stream")), str(header.get("text")).encode())
            case _:
                self.account.take(about, frame)

    def _hear_what_was_done(self) -> None:
        deadline = time.monotonic() + LATEST_TRACE_SECONDS
        while not self._traced and time.monotonic() < deadline:
            self.client.read(0.02)

    # ---- where the running rank is

    def _rank_in(self, process: int) -> int:
        """The rank that runs, by the process's own note."""
        number = self.client.box.number_of(0)
        number &= (1 << RANK_BITS) - 1
        return number if number < self.size else 0

    def _line_of(self, rank: int, dump: str) -> int | None:
        """The line of the submission in the thread of a rank, in a dump of all threads."""
        sections = re.split(r"(?=^(?:Current thread|Thread) 0x)", dump, flags=re.MULTILINE)
        named = [s for s in sections if rank in self._threads and f"0x{self._threads[rank]:016x}" in s]
        lines = (line_in(section, self.program.file) for section in [*named, *sections])
        return next((line for line in lines if line is not None), None)
