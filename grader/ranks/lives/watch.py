"""Watching the processes of one life: what they say, which file operations they are about to do, and how they end."""

from __future__ import annotations

import contextlib
import os
import select
import selectors
import signal
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from grader.ranks.lives.calls import FILE_CALLS, SYNCS, WRITES
from grader.ranks.lives.disk import Disk
from grader.ranks.lives.listener import Notice, let_go_on, receive
from grader.sandbox import frames

TICK_SECONDS = 0.03
QUIET_SECONDS = 0.15  # in which nobody did anything and all slept: nobody will, without the one who is held
PATIENCE_SECONDS = 3.0  # after so long of that, they are stuck
ENOUGH_STEPS = 400  # of others, after which one that waits for them waits no longer: they poll, or go on without it
LATER_SECONDS = 5.0  # the same, while they run and do nothing with files: they poll something else
Strike = bool | Literal["rank", "hold", "later"]
"""What becomes of a process that is about to do a file operation: False, it goes on; True, it is killed; "rank", all of
its rank is, with what that has started; "hold", it waits for good, until a signal ends the wait or the process;
"later", it waits until the others do nothing more without it, and is then asked about once more."""


@dataclass
class Process:
    """One process of a life; `event` is how it ended, as the grading process is told of a rank."""

    rank: int
    pid: int
    channel: socket.socket
    listener: int = -1
    exit: int = -1  # a descriptor that becomes readable when it is gone
    reader: frames.Reader = field(default_factory=frames.Reader)
    greeted: bool = False
    event: dict[str, Any] = field(default_factory=dict)
    steps: int = 0
    gone: bool = False
    blob: bytes = b""

    def kill(self) -> None:
        """SIGKILL for it and for those it started."""
        self.kill_group()
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def end(self) -> None:
        """Kill it if it is still there, reap it, and close what leads to it."""
        if not self.gone:
            self.kill()
            self.reap(os.waitpid(self.pid, 0)[1])
        for fd in (self.listener, self.exit):
            if fd >= 0:
                os.close(fd)
        self.channel.close()

    def reap(self, status: int) -> None:
        self.gone = True
        self.kill_group()
        if not self.event:
            self.event = _raised(*_ending(os.waitstatus_to_exitcode(status)))

    def kill_group(self) -> None:
        """End those it started, which would else outlive it."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)


def _raised(why: str, text: str) -> dict[str, Any]:
    return {"event": "raised", "stage": "call", "type": "", "text": text, "line": None, "why": why}


def _ending(status: int) -> tuple[str, str]:
    how = f"was killed by {signal.Signals(-status).name}" if status < 0 else f"ended with exit status {status}"
    return "ended", f"its process {how} before the call returned"


@dataclass(frozen=True)
class Step:
    """A file operation in the watched folder: whose, which, on what, whether by the rank's main thread, how many bytes
    it is to write, where that can be seen, and in which process, which may be one that the rank has started."""

    rank: int
    call: str
    name: str
    main: bool
    size: int = 0
    process: int = 0


class Watch:
    """The supervisor's loop over the processes of one life."""

    def __init__(
        self,
        processes: list[Process],
        folder: Path | None,
        rooms: Sequence[Path],
        kill: tuple[int, int] | None,
        gate: bool,
        strike: Callable[[Step], Strike] | None,
        patience: float,
    ) -> None:
        self.processes, self.kill, self.gate_shut, self.strike = processes, kill, gate, strike
        self.patience = patience
        self.folder = str(folder.resolve()) if folder else ""
        self.disk = Disk(folder, rooms) if folder else None
        self.steps: list[Step] = []
        self.killed = False
        self.waiting: list[tuple[Process, Notice]] = []  # at the gate
        self.at_the_gate: set[int] = set()  # threads that waited there together
        self.held: tuple[Process, Notice] | None = None
        self.later: tuple[Process, Notice, int] | None = None  # it waits for the others, since so many steps
        self.watch = selectors.DefaultSelector()
        for process in processes:
            self.watch.register(process.channel, selectors.EVENT_READ, (process, "channel"))
            process.exit = os.pidfd_open(process.pid)
            self.watch.register(process.exit, selectors.EVENT_READ, (process, "exit"))

    def until_all_are_gone(self) -> None:
        news, steps = time.monotonic(), 0
        moved = news
        with self.watch:
            while not all(process.gone for process in self.processes):
                ready = self.watch.select(TICK_SECONDS)
                for key, _ in sorted(ready, key=lambda pair: pair[0].data[1] == "exit"):  # its last words come first
                    process, what = key.data
                    {"channel": self._hear, "listener": self._asked, "exit": self._gone}[what](process)
                if self.strike:  # an agent that polls its workers is busy for ever: only files count
                    lively, steps = len(self.steps) > steps, len(self.steps)
                    moved = time.monotonic() if lively else moved
                    if self.later and time.monotonic() - moved < LATER_SECONDS:
                        lively = lively or self._runs({step.process for step in self.steps})
                else:
                    lively = bool(ready) or self._somebody_runs()
                if lively:
                    news = time.monotonic()
                quiet = time.monotonic() - news
                if self.later and (quiet >= QUIET_SECONDS or steps - self.later[2] >= ENOUGH_STEPS):
                    (process, notice, _), self.later = self.later, None
                    self._do(process, notice)
                    news = time.monotonic()
                elif quiet >= QUIET_SECONDS and (self.held or self.waiting):
                    self._everybody_waits()
                    news = time.monotonic()
                elif quiet >= self.patience:
                    text = f"its process stands still and did nothing new for {self.patience:g} s"
                    self._end_all(_raised("stuck", text))
        if self.disk:
            self.disk.forget_the_deleted()

    def _somebody_runs(self) -> bool:
        return self._runs({process.pid for process in self.processes if not process.gone})

    def _runs(self, pids: set[int]) -> bool:
        """Whether a thread of these processes wants the processor, as far as that can be seen."""
        for pid in pids:
            with contextlib.suppress(OSError):
                for thread in os.listdir(f"/proc/{pid}/task"):
                    stat = Path(f"/proc/{pid}/task/{thread}/stat").read_text()
                    if stat.rpartition(")")[2].split()[0] in "RD":
                        return True
        return False

    def _everybody_waits(self) -> None:
        if self.held:
            self._end_all({"event": "killed"})
            self.killed = True
            return
        self._open_gate()

    def _open_gate(self) -> None:
        self.gate_shut = False
        self.at_the_gate = {notice.thread for _, notice in self.waiting}
        waiting, self.waiting = self.waiting, []
        for process, notice in waiting:
            self._do(process, notice)

    def _end_all(self, event: dict[str, Any]) -> None:
        for process in self.processes:
            if not process.gone:
                process.event = process.event or dict(event)
                process.kill()

    def _gone(self, process: Process) -> None:
        self.watch.unregister(process.exit)
        while self._hear(process):
            pass
        for what in (process.listener, process.channel):
            with contextlib.suppress(KeyError, ValueError):
                self.watch.unregister(what)
        process.reap(os.waitpid(process.pid, 0)[1])

    def _hear(self, process: Process) -> bool:
        if not process.greeted:
            data, fds, _, _ = socket.recv_fds(process.channel, 1, 1)
            process.greeted = True
            if fds:
                process.listener = fds[0]
                self.watch.register(process.listener, selectors.EVENT_READ, (process, "listener"))
            if data in (b"L", b"-"):
                return True
        else:
            try:
                data = process.channel.recv(2**18, socket.MSG_DONTWAIT)
            except OSError:
                return False
        if not data:
            with contextlib.suppress(KeyError, ValueError):
                self.watch.unregister(process.channel)
            return False
        for message in process.reader.feed(data):
            assert isinstance(message, frames.Message)
            if not process.event:
                process.event, process.blob = message.header, message.blob
        return True

    def _asked(self, process: Process) -> None:
        notice = receive(process.listener)
        if notice is None:
            with contextlib.suppress(KeyError, ValueError):
                if not _anybody(process.listener):
                    self.watch.unregister(process.listener)
            return
        if not self._inside(notice):
            self._note(notice)
            let_go_on(process.listener, notice)
        elif self.gate_shut and not _by_main(process, notice):
            self.waiting.append((process, notice))
        else:
            self._do(process, notice)

    def _inside(self, notice: Notice) -> bool:
        if notice.path is None:
            return FILE_CALLS[notice.call].whole
        return (notice.path + "/").startswith(self.folder + "/")

    def _do(self, process: Process, notice: Notice) -> None:
        """Count the operation, and have it done unless it is the one at which all ends."""
        number, process.steps = process.steps, process.steps + 1
        if self.kill == (process.rank, number):
            self.held = (process, notice)
            if len(self.processes) == 1:
                self._everybody_waits()
            return
        name = notice.path.removeprefix(self.folder).strip("/") if notice.path else ""
        main, own = _by_main(process, notice), _process_of(notice.thread)
        step = Step(process.rank, notice.call, name, main, notice.size, own)
        struck = self.strike is not None and self.strike(step)
        if struck == "hold":
            return
        if struck == "later":
            self.later = process, notice, len(self.steps)
            return
        if struck:
            if struck == "rank":
                process.kill()
            with contextlib.suppress(ProcessLookupError):
                os.kill(step.process, signal.SIGKILL)
            return
        self.steps.append(step)
        self._note(notice)
        let_go_on(process.listener, notice)

    def _note(self, notice: Notice) -> None:
        """Keep what an operation means for what is on the disk for good."""
        assert self.disk is not None
        if FILE_CALLS[notice.call].whole:
            self.disk.sync()
        elif notice.path is not None and self.disk.holds(notice.path):
            self.disk.forget_the_deleted()
            if notice.call in SYNCS:
                self.disk.sync(notice.path)
            elif notice.call in WRITES:
                self.disk.write(notice.path, notice.through)


def _by_main(process: Process, notice: Notice) -> bool:
    return notice.thread == process.pid


def _process_of(thread: int) -> int:
    """The process that a thread is of."""
    with contextlib.suppress(OSError), open(f"/proc/{thread}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("Tgid:"))
    return thread


def _anybody(listener: int) -> bool:
    """Whether a process is left under a listener's filter."""
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    return not any(event & select.POLLHUP for _, event in poll.poll(0))
