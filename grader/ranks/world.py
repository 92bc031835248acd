"""One world of ranks, watched from outside until each has returned, broken down or is stuck for ever."""

from __future__ import annotations

import contextlib
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from grader.ranks import blame, endings, needs, traffic
from grader.ranks.account import Account, Broken, tidy
from grader.ranks.faults import Fault
from grader.ranks.program import Call, CallResult, Ending, Limits, Program, Run, Said, from_bytes, to_bytes
from grader.ranks.traffic import Traffic
from grader.sandbox import frames
from grader.sandbox.client import NONSENSE, TICK_SECONDS, Beyond, Client, Moment, Patience, line_in
from grader.sandbox.warm import Box, Unwatched
from grader.verdict import Diagnosis

LOG = logging.getLogger(__name__)
QUIET_SECONDS = 0.1  # how long stuck ranks must stay silent before they are called stuck
GRACE_SECONDS = 1.0  # how long the others may go on after one rank has broken


class World(ABC):
    """A run of a program in a box: what is said to it, what is known of it, and how it ended."""

    virtual = False  # whether its times are

    def __init__(
        self, box: Box, program: Program, ranks: int, seed: int, limits: Limits, faults: Sequence[Fault] = ()
    ) -> None:
        self.program, self.size, self.seed, self.limits = program, ranks, seed, limits
        self.account = Account(program, ranks, self.virtual, faults)
        self.client = Client(
            box, limits.idle_seconds, limits.stdout_bytes, limits.frame_bytes, self._take, printers=ranks
        )
        self.finished: list[CallResult] = []
        self.loaded = False
        self.doubtful = False
        self.sent: tuple[int, ...] = ()  # bytes in the last call, by the kernel's count
        self._said_before = [0] * ranks, [0] * ranks  # bytes on stdout and stderr when the call began

    @abstractmethod
    def _take(self, number: int, frame: frames.Message | frames.Events) -> None:
        """What process `number` of the box says."""

    @abstractmethod
    def _start(self) -> None:
        """Have the program loaded. Raises Broken."""

    @abstractmethod
    def _call(self, call: Call) -> None:
        """Make a call. Raises Broken where it does not finish."""

    @abstractmethod
    def _rank_in(self, process: int) -> int:
        """The rank to name for what process `process` of the box does."""

    @abstractmethod
    def _line_of(self, rank: int, dump: str) -> int | None:
        """The line of the submission at which a rank is, in a dump of its process."""

    @abstractmethod
    def _hear_what_was_done(self) -> None:
        """Have everything been told that the ranks have recorded."""

    def live(self, calls: Sequence[Call]) -> Run:
        """From the program to the result of the last call, or of one that does not finish. Raises Unwatched."""
        account, ending = self.account, self._lived(calls)
        # the kernel has this error for a machine without room, too
        full = any(rank.raised is not None and rank.raised.why == "processes" for rank in account.ranks)
        printed = self.client.printed
        return Run(
            self.size, ending, tuple(self.finished), account.trace, tuple(tidy(account.diagnoses)),
            tuple(printed.text("stdout", rank) for rank in range(self.size)),
            tuple(printed.text("stderr", rank) for rank in range(self.size)),
            tuple(account.ring),
            tuple((number, word) for number, rank in enumerate(account.ranks) if (word := rank.mark)),
            self.loaded, self._said(), account.unseen, self.sent,
            self.client.box.written(), self.doubtful or full,
        )  # fmt: skip

    def _said(self) -> Said:
        """What the ranks have printed in this call."""
        printed, (out, err) = self.client.printed, self._said_before
        return Said(
            tuple(printed.text("stdout", rank, since) for rank, since in enumerate(out)),
            tuple(printed.text("stderr", rank, since) for rank, since in enumerate(err)),
        )

    def _lived(self, calls: Sequence[Call]) -> Ending:
        account = self.account
        try:
            try:
                self._start()
                for call in calls:
                    self._call(call)
                self.client.read_what_was_printed()
            except Beyond as beyond:
                raise self._beyond(beyond) from None
        except Broken as broken:
            account.diagnoses = tidy([broken.diagnosis, *account.in_rank_order()])
            return broken.ending
        except NONSENSE as error:  # what ranks say is theirs to make up; whatever does not fit is no answer
            LOG.info("what a rank sent could not be read", exc_info=error)
            if not isinstance(error, frames.FrameError):
                error = frames.FrameError(f"reading it raised {type(error).__name__}")
            account.diagnoses.insert(0, account.violation(f"sent an answer that the grader cannot read ({error})"))
            return "crashed"
        finally:
            self.client.detach()
        return "finished"

    # ---- what is told

    def _start_header(self) -> dict[str, Any]:
        """What every rank is told first."""
        return {
            "program": "ranks",
            "world": self.size,
            "source": self.program.source,
            "file": self.program.file,
            "functions": [(function.name, function.parameters) for function in self.program.functions],
            "p2p_only": self.program.p2p_only,
            "own_group": self.program.own_group,
            "watched": self.program.watched,
            "harness": self.program.harness,
            "banned": self.program.banned,
            "contents": self.program.contents,
            "flops": self.program.flops,
            "seed": self.seed,
            "place": None if self.program.place is None else asdict(self.program.place),
        }

    def _check_loaded(self) -> None:
        """Raise Broken where the program has no function that can be called."""
        names = [function.name for function in self.program.functions]
        self.loaded = not names or any(name not in self.account.problems for name in names)
        if not self.loaded:
            raise self._missing(names[0])

    def _missing(self, name: str) -> Broken:
        parameters = next(function.parameters for function in self.program.functions if function.name == name)
        form = f"{name}({', '.join(('...',) if parameters is None else parameters)})"
        message, expected = f"{self.program.file} {self.account.problems[name]}. Define {form}.", f"def {form}"
        return Broken(Diagnosis("missing_function", message, file=self.program.file, expected=expected), "crashed")

    def _begin_call(self, call: Call) -> str:
        """Make ready for a call. Returns the function's name. Raises Broken if it cannot be called."""
        self.account.begin_call()
        self.client.read_what_was_printed()
        printed = self.client.printed
        self._said_before = printed.lengths("stdout"), printed.lengths("stderr")
        function = call.function or next((function.name for function in self.program.functions), "")
        called = {function} | (needs.of_submission(self.program.harness, call.by) if call.by else set())
        for each in self.program.functions:
            if each.name in called and each.name in self.account.problems:
                raise self._missing(each.name)
        return function

    def _finish_call(
        self, values: Sequence[tuple[list[Any], Any]], peaks: Sequence[Any], finish: tuple[float, ...] = ()
    ) -> None:
        """A call came to its end: `values` are each rank's arguments, as they are now, and what it returned."""
        self.client.read_what_was_printed()
        self.account.diagnoses = self.account.in_rank_order()
        self.finished.append(
            CallResult(
                tuple(tuple(arguments) for arguments, _ in values),
                tuple(returned for _, returned in values),
                self.account.trace,
                self.account.found(),
                finish,
                tuple(peak if isinstance(peak, int) and peak >= 0 else 0 for peak in peaks),
                self._said(),
                self.sent,
            )
        )

    # ---- limits

    def _beyond(self, beyond: Beyond) -> Broken:
        """More than the box may take, or tell."""
        if beyond.limit == "printing":
            how = f"kept printing after the ranks had printed {beyond.allowed:,} bytes, all that is allowed. Print less"
            return Broken(self.account.violation(how, beyond.number), "crashed")
        if beyond.limit == "frames":
            how = f"sent more than {beyond.allowed / 2**20:g} MiB of results and records. Return or communicate less"
            return Broken(self.account.violation(how, beyond.number), "crashed")
        rank = self._rank_in(beyond.number)
        line = self._line_of(rank, self.client.box.text_of(beyond.number))
        with contextlib.suppress(frames.FrameError):
            self.account.work_in_events()
        return Broken(*blame.beyond(beyond, rank, line, self.account.source))

    def _timed_out(self, rank: int, process: int, how: str) -> Broken:
        line = self.client.line(lambda dump: self._line_of(rank, dump), process)
        self._hear_what_was_done()
        with contextlib.suppress(frames.FrameError):
            self.account.work_in_events()
        account = self.account
        return Broken(blame.timed_out(rank, line, account.trace, account.source, how), "timed_out")


class RealWorld(World):
    """A world whose ranks are processes of a box, one each."""

    def __init__(
        self, box: Box, program: Program, ranks: int, seed: int, limits: Limits, idle_machine: bool, backend: str
    ) -> None:
        super().__init__(box, program, ranks, seed, limits)
        self._more = {
            "engine": backend,
            "backend": backend,
            "device": "cuda" if backend == "nccl" else program.device,
            "apart": program.apart,
            "shared_memory": not box.scratch,  # only a box with mounts of its own needs no folder outside
            "yield_to_ranks": idle_machine,
        }
        self._ended: set[int] = set()
        self._traffic_before: Traffic | None = None

    def _take(self, number: int, frame: frames.Message | frames.Events) -> None:
        self.account.take(number, frame)

    def _rank_in(self, process: int) -> int:
        return min(process, self.size - 1)

    def _hear_what_was_done(self) -> None:
        """Real ranks tell before they block."""

    def _line_of(self, rank: int, dump: str) -> int | None:
        return line_in(dump, self.program.file)

    def _start(self) -> None:
        header = {**self._start_header(), **self._more}
        for rank in range(self.size):
            self.client.post(rank, header)
        self._until_settled("loaded", self.limits.load_cpu_seconds)
        self._check_loaded()
        asks = self.program.p2p_only or self.program.watched or self.program.counted
        self._traffic_before = self._traffic() if asks else None

    def _call(self, call: Call) -> None:
        function = self._begin_call(call)
        for number, rank in enumerate(self.account.ranks):
            rank.asked = self.client.moment(number)
            tree, blob = frames.encode(list(call.arguments[number]), to_bytes)
            self.client.post(number, {"function": function, "by": call.by, "arguments": tree}, blob)
        self._until_settled("returned", self.limits.cpu_seconds)
        self._compare_traffic()
        results = [rank.result for rank in self.account.ranks if rank.result is not None]
        self._finish_call([_value(result) for result in results], [result.header.get("peak", 0) for result in results])

    def _traffic(self) -> Traffic | None:
        """What the kernel has counted up to now in this box's network; None where others share it."""
        told = self.client.traffic()
        self._note_ends()
        if told["carried"] is None:
            return None
        return Traffic(told["carried"], tuple(told["received"]), tuple(told["sent"]))

    def _compare_traffic(self) -> None:
        """Note what the kernel counted in a call. Raise Broken where only messages are allowed, and it counted other
        bytes than the ranks recorded."""
        before = self._traffic_before
        if before is None:
            return
        self._traffic_before = self._traffic()
        if not self.program.p2p_only:
            sent = self._traffic_before.since(before).sent if self._traffic_before else ()
            self.sent = sent if min(sent, default=-1) >= 0 else ()  # sockets that were closed took their counts along
            return
        if self._traffic_before is None:
            raise Unwatched("the network of the sandbox can no longer be measured")
        found = traffic.contradiction(self._traffic_before.since(before), self.account.trace)
        if found:
            self.doubtful = True
            raise Broken(blame.not_what_was_carried(found, self.account.source), "crashed")

    def _until_settled(self, good: str, cpu_seconds: float) -> None:
        """Read until every rank is in the state `good`. Raises Broken when that cannot happen any more."""
        account, client, ranks = self.account, self.client, self.account.ranks
        client.listen()
        began, first_breakage = client.moment(0), 0.0
        next_tick = began.at + TICK_SECONDS
        while not all(rank.state == good for rank in ranks):
            client.read(min(QUIET_SECONDS, max(next_tick - time.monotonic(), 0.01)))
            self._note_ends()
            now = time.monotonic()
            if now >= next_tick:
                next_tick = now + TICK_SECONDS
                self._enforce_limits(began, cpu_seconds)
            broken = any(rank.broken for rank in ranks)
            first_breakage = first_breakage or (now if broken else 0.0)
            patience_over = first_breakage and now - first_breakage > GRACE_SECONDS
            quiet = now - client.last_news >= QUIET_SECONDS
            if not quiet and not patience_over and not (broken and all(rank.over for rank in ranks)):
                continue
            stuck = account.stuck()
            going = [n for n, r in enumerate(ranks) if not r.over and r.state != good and n not in stuck]
            if patience_over or blame.cycle(stuck) or (not going and (stuck or any(r.fallen for r in ranks))):
                raise endings.explain(account, stuck)
        account.work_in_events()

    def _note_ends(self) -> None:
        if not self.client.kept and not all(rank.over for rank in self.account.ranks):
            raise Unwatched("the process that watches the sandbox ended")
        for number in self.client.status.keys() - self._ended:
            self._ended.add(number)
            self.account.end(number, self.client.status[number])

    def _enforce_limits(self, began: Moment, cpu_seconds: float) -> None:
        going = [(number, rank) for number, rank in enumerate(self.account.ranks) if not rank.over]
        for number, rank in going:
            overdue = self.client.passed(number, Patience(cpu=cpu_seconds), rank.asked)
            if overdue is not None:
                raise self._timed_out(number, number, str(overdue))
        patience = Patience(idle=self.limits.idle_seconds, silent=self.limits.silent_seconds,
                            wall=self.limits.wall_seconds)  # fmt: skip
        overdue = self.client.passed(0, patience, began)
        if overdue is not None:
            with contextlib.suppress(frames.FrameError):
                self.account.work_in_events()
            number = next((n for n, rank in going if rank.blocked is None), going[0][0])  # the others may wait for it
            raise self._timed_out(number, number, str(overdue))


def _value(result: frames.Message) -> tuple[list[Any], Any]:
    value = frames.decode(result.header.get("value"), result.blob, from_bytes)
    if not isinstance(value, list) or len(value) != 2 or not isinstance(value[0], list):
        raise frames.FrameError("a result of another shape")
    return value[0], value[1]
