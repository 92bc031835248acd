"""The sim engine: any number of simulated ranks in one process of a box, in virtual time."""

from __future__ import annotations

import contextlib
import os
import re
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from grader.ranks import WORKER, blame, endings
from grader.ranks.account import Broken, RankState
from grader.ranks.faults import Fault
from grader.ranks.network import ROUNDS, Network
from grader.ranks.program import Call, CallResult, Limits, Program, Run, from_bytes, to_bytes
from grader.ranks.world import TICK_SECONDS, World
from grader.sandbox import frames
from grader.sandbox.limits import BoxLimits
from grader.sandbox.warm import Box, Warm

LATEST_TRACE_SECONDS = 3.0  # how long to wait for the trace of a run that does not end
LATEST = 1e9  # virtual seconds
ROOM = 128  # for ranks, in a session's process
CPU_SECONDS_A_RANK = 0.02  # on top of the limit for one


class NeedsProcesses(Exception):  # noqa: N818 - says what is the case
    """The program does something that only real processes can do, and why."""


class Simulator:
    """Runs programs on simulated ranks: the same seed, the same run, on every machine. Safe from any thread."""

    name = "sim"

    def __init__(self, warm: Warm | None = None) -> None:
        self._warm = warm or Warm(WORKER)
        self._lock = threading.Lock()
        self._running = dict.fromkeys(sorted(os.sched_getaffinity(0)), 0)  # worlds by processor

    @contextlib.contextmanager
    def _processor(self) -> Iterator[int]:
        """The processor with the fewest of our worlds."""
        with self._lock:
            chosen = min(self._running, key=lambda processor: self._running[processor])
            self._running[chosen] += 1
        try:
            yield chosen
        finally:
            with self._lock:
                self._running[chosen] -= 1

    def run(
        self,
        program: Program,
        ranks: int,
        calls: Sequence[Call],
        seed: int = 0,
        limits: Limits | None = None,
        network: Network = ROUNDS,
        session: Session | None = None,
        faults: Sequence[Fault] = (),
        trace: bool = True,
    ) -> Run:
        """Load the program on `ranks` simulated ranks, and make the calls one after another.

        Without a session the process is this run's own, and gone when this returns or raises.

        Virtual time begins anew with each call, and the faults befall each. Without `trace` only results are kept.
        The first call that does not finish ends the run. Raises BoxFailed when no process could be started, and
        NeedsProcesses for a program that cannot be simulated.
        """
        if program.apart:
            raise NeedsProcesses("it is about processes that are killed")
        with contextlib.ExitStack() as stack:
            session, limits = session or stack.enter_context(self.session()), limits or Limits()
            box = session.box(limits.box, ranks, program.imported)
            try:
                world = _SimWorld(box, program, ranks, seed, limits, network, session.processor)
                world.faults, world.tracing = tuple(faults), trace
                run = world.live(calls)
            except BaseException:
                session.dismiss()
                raise
            if not run.finished or faults:
                session.dismiss()
            return run

    @contextlib.contextmanager
    def session(self) -> Iterator[Session]:
        """A process for several runs of one submission, one after another, as long as each ends well."""
        with self._processor() as processor:
            session = Session(self._warm, processor)
            try:
                yield session
            finally:
                session.dismiss()

    def close(self) -> None:
        self._warm.close()


class Session:
    """A box with one process, started when first needed, and anew after a run that did not end well."""

    def __init__(self, warm: Warm, processor: int) -> None:
        self._warm, self.processor = warm, processor
        self._box: Box | None = None
        self._room = 0

    def box(self, limits: BoxLimits, ranks: int, imported: Sequence[str]) -> Box:
        """The box, anew if it has no room for so many ranks, which are a thread each."""
        if self._box is None or ranks > self._room:
            self.dismiss()
            self._room = max(ranks, ROOM)
            self._box = self._warm.box(1, replace(limits, processes=limits.processes + self._room), imported)
        return self._box

    def dismiss(self) -> None:
        """End the process."""
        if self._box is not None:
            self._box.end()
            self._box = None


class _SimWorld(World):
    """Watches the one process in which all ranks are simulated."""

    shared = True

    def __init__(
        self, box: Box, program: Program, ranks: int, seed: int, limits: Limits, network: Network, processor: int
    ) -> None:
        super().__init__(box, program, ranks, seed, limits, idle_machine=False)
        self.network, self.processor = network, processor
        self.tracing = True
        self.traced = False  # whether it has told, out of turn, what its ranks have done
        self.phases: list[frames.Message] = []
        self.threads: dict[int, int] = {}

    def _start(self) -> None:
        more = {
            "engine": "sim",
            "network": self.network.to_json(),
            "faults": [fault.to_json() for fault in self.faults],
            "trace": self.tracing,
            "processor": self.processor,
        }
        self._tell(0, {**self._start_header(), **more})
        self._until_phase(self.limits.load_cpu_seconds)
        self._check_loaded()

    def _call(self, call: Call) -> None:
        function = self._begin_call(call)
        tree, blob = frames.encode([list(arguments) for arguments in call.arguments], to_bytes)
        self._tell(0, {"function": function, "by": call.by, "arguments": tree}, blob)
        phase = self._until_phase(self.limits.cpu_seconds)
        value = frames.decode(phase.header.get("value"), phase.blob, from_bytes)
        if not isinstance(value, list) or len(value) != self.size:
            raise frames.FrameError("results of another shape")
        clocks = [float(standing["clock"]) for standing in phase.header["ranks"]]
        if not all(0 <= clock <= LATEST for clock in clocks):
            raise frames.FrameError("times that cannot be")
        self.diagnoses = self._in_rank_order()
        self.trace.finish = tuple(int(clock * 1e9) for clock in clocks)
        self.finished.append(
            CallResult(
                tuple(tuple(arguments) for arguments, _ in value),
                tuple(returned for _, returned in value),
                self.trace,
                self._found(),
                tuple(float(clock) for clock in clocks),
                tuple(self._peak(frames.Message(standing)) for standing in phase.header["ranks"]),
            )
        )

    def _until_phase(self, cpu_seconds: float) -> frames.Message:
        """Read until all ranks have come to rest; `cpu_seconds` is for one. Raises Broken unless all returned."""
        self.phases.clear()
        started = self.started = self.last_news = self.last_frame = time.monotonic()
        cpu_before, next_tick = self._cpu(0), started + TICK_SECONDS
        allowed = cpu_seconds + CPU_SECONDS_A_RANK * self.size
        while not self.phases:
            self._read(TICK_SECONDS)
            now = time.monotonic()
            if self.ranks[0].state == "dead":
                status = self.ranks[0].status or 0
                raise Broken(blame.died(self._running(), status, self.trace, self.source), "crashed")
            if now >= next_tick:
                next_tick = now + TICK_SECONDS
                used = self._cpu(0)
                if used > self.cpu_seen:
                    self.cpu_seen, self.last_news = used, now
                if used - cpu_before > allowed:
                    raise self._timed_out(self._running(), f"used {allowed:g} s of CPU time")
                how = self._too_silent(now)
                if how:
                    raise self._timed_out(self._running(), how)
        phase = self.phases.pop()
        self._take_standings(phase.header)
        self._work_in_events()
        if not all(rank.state in ("returned", "loaded", "killed") for rank in self.ranks):
            raise endings.explain(self, self._stuck())
        if any(rank.state == "killed" for rank in self.ranks):
            self.diagnoses.append(endings.after_a_kill(self, {}).diagnosis)
        return phase

    def _take_standings(self, header: dict[str, Any]) -> None:
        standings = header.get("ranks")
        if not isinstance(standings, list) or len(standings) != self.size:
            raise frames.FrameError("not one standing a rank")
        for number, (rank, standing) in enumerate(zip(self.ranks, standings, strict=True)):
            try:
                rank.state = standing["state"]
                self.threads[number] = int(standing["thread"])
                if standing["raised"]:
                    self._message(number, rank, frames.Message(standing["raised"]))
            except (KeyError, TypeError, ValueError):
                raise frames.FrameError("a standing that does not fit") from None
        self._take_problems(header.get("problems", {}))

    def _message(self, number: int, rank: RankState, message: frames.Message) -> None:
        header = message.header
        about = header.get("rank", number)
        if not isinstance(about, int) or not 0 <= about < self.size:
            raise frames.FrameError("a message about no rank of this world")
        match header.get("event"):
            case "phase":
                self.phases.append(message)
            case "trace":
                self.ranks[about].events.append(frames.Events(message.blob))
            case "traced":
                self.traced = True
            case "needs_processes":
                raise NeedsProcesses(str(header.get("why")))
            case "printed":
                self._printed(about, self.ranks[about], str(header.get("stream")), str(header.get("text")).encode())
            case _:
                super()._message(about, self.ranks[about], message)

    def _hear_what_was_done(self) -> None:
        deadline = time.monotonic() + LATEST_TRACE_SECONDS
        while not self.traced and time.monotonic() < deadline:
            self._read(0.02)

    # ---- where the running rank is

    def _running(self) -> int:
        """The rank that holds the baton, by the process's own note."""
        number = self.box.number_of(0)
        return number if 0 <= number < self.size else 0

    def _stack_of(self, number: int, dump: str) -> int | None:
        """The line of the submission in the thread of rank `number`, in a dump of all threads."""
        here = re.compile(rf'File "{re.escape(self.source.file)}", line (\d+)')
        sections = re.split(r"(?=^(?:Current thread|Thread) 0x)", dump, flags=re.MULTILINE)
        named = [s for s in sections if number in self.threads and f"0x{self.threads[number]:016x}" in s]
        for section in [*named, *sections]:
            found = here.search(section)
            if found:
                return int(found.group(1))
        return None
