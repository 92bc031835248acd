"""A supervisor in a box: it forks processes that run the learner's program, and kills them where it is told to.

The supervisor is a rank that never loads the program itself, so what it says of a life is its own. A life's processes
are ranks of a group of their own; before each file operation in the watched folder the supervisor is asked (see
`listener`), and it may hold the operation, or end everybody there: what a power cut or SIGKILL does at that moment.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import random
import resource
import shutil
import signal
import socket
import sys
import tempfile
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from grader.ranks import learner
from grader.ranks.lives import disk
from grader.ranks.lives.listener import listen
from grader.ranks.lives.watch import PATIENCE_SECONDS, Process, Step, Strike, Watch
from grader.sandbox import frames, namespaces, program, seccomp, supervise
from grader.sandbox.first import NOTE, keep_to

CPU_SECONDS = 4


class Functions(dict[str, Any]):
    """The learner's functions by name, or "$code" where the program is run as a whole. NameError for one that is not
    there, or cannot be called."""

    def __init__(self, found: dict[str, Any], problems: dict[str, str]) -> None:
        super().__init__(found)
        self.problems = problems

    def __getitem__(self, name: str) -> Any:
        if name in self.problems:
            raise NameError(f"the submission {self.problems[name]}")
        return super().__getitem__(name)


class Raised(Exception):  # noqa: N818 - says what happened
    """A life did not come to its end: the event that the grading process is told."""

    def __init__(self, event: dict[str, Any]) -> None:
        super().__init__(str(event.get("text")))
        self.event = event


@dataclass
class Ended:
    """What a rank's process last said, as text, for whoever wants to read it, and the bytes that belong to it."""

    rank: int
    said: str
    blob: bytes = b""

    @property
    def event(self) -> dict[str, Any]:
        """How it ended, as the grading process is told of a rank."""
        event: dict[str, Any] = json.loads(self.said)
        return event

    @property
    def value(self) -> Any:
        """What it returned; None if it did not."""
        event = self.event
        if event.get("event") != "returned":
            return None
        return frames.decode(event["value"], self.blob, learner.tensor)


@dataclass
class Life:
    """What came of one life: per rank what it returned or how it ended, and every file operation in the folder."""

    processes: list[Ended]
    steps: list[Step]
    killed: bool  # at the operation that was named
    after_a_power_cut: disk.Files = field(default_factory=dict)
    at_the_gate: int = 0  # threads that waited there together when it opened

    @property
    def values(self) -> list[Any]:
        """What each rank returned. Raises Raised where one of them did not."""
        for process in self.processes:
            if process.event.get("event") != "returned":
                raise Raised(process.event)
        return [process.value for process in self.processes]

    @property
    def returned(self) -> list[int]:
        """The ranks that came to their end."""
        return [process.rank for process in self.processes if process.event.get("event") == "returned"]


class _Meeting:
    """Where the ranks of a life meet: a store, which rank 0 serves. It goes on only when all others have met it, since
    the store ends with it."""

    def __init__(self, ranks: int) -> None:
        self._ranks, self._store, (self._all_here, self._here) = ranks, socket.socket(), os.pipe()
        if ranks > 1:
            self._store.bind(("127.0.0.1", 0))
            self._store.listen(ranks)

    def descriptors(self) -> tuple[int, ...]:
        return self._store.fileno(), self._all_here, self._here

    def meet(self, rank: int) -> None:
        """Begin the default group, in a rank. One that is alone has none."""
        if self._ranks == 1:
            return
        port, first = self._store.getsockname()[1], rank == 0
        listening = os.dup(self._store.fileno()) if first else None
        self._store.close()
        store = dist.TCPStore("127.0.0.1", port, self._ranks, first, wait_for_workers=False, master_listen_fd=listening)
        dist.init_process_group("gloo", store=store, rank=rank, world_size=self._ranks, timeout=timedelta(seconds=60))
        os.close(self._here)
        if first:
            os.read(self._all_here, 1)  # the end of the file: nobody has it open to write any more
        os.close(self._all_here)

    def close(self) -> None:
        self._store.close()
        for fd in (self._all_here, self._here):
            with contextlib.suppress(OSError):
                os.close(fd)
        self._all_here = self._here = -1


class Lives:
    """Makes lives of one program. Every life has other random seeds than the last."""

    def __init__(
        self, code: types.CodeType, source: str, file: str, functions: list[Any], seed: int, shared_memory: bool
    ) -> None:
        """`shared_memory` says whether the box has /dev/shm to itself: only then may lives use it."""
        self._code, self._source, self._file, self._functions, self._seed = code, source, file, functions, seed
        self._shared_memory = [Path(namespaces.SHARED_MEMORY)] if shared_memory else []
        self._lives = 0
        self.spared: set[int] = set()  # children that are no lives

    def run(
        self,
        act: Callable[..., Any],
        *arguments: Any,
        ranks: int = 1,
        strangers: bool = False,
        folder: Path | None = None,
        rooms: Sequence[Path] = (),
        kill: tuple[int, int] | None = None,
        gate: bool = False,
        strike: Callable[[Step], Strike] | None = None,
        patience: float = PATIENCE_SECONDS,
        cpu_seconds: int = CPU_SECONDS,
    ) -> Life:
        """Call `act(functions, *arguments)` in fresh processes, and wait for them.

        `functions` are the learner's, by name. They may write in `folder`, in `rooms`, and in a folder of their own
        that goes with them; so do their shared memory and the processes that they leave behind. What the next life
        knows of this one is in `folder` and in `rooms`; others' folders cannot be read. Ranks are one default group,
        unless they are `strangers`.

        Operations on files in `folder` are watched: `kill` is the rank and the number, from 0, of the operation before
        which everybody is killed (of several ranks when the others have done what they can do without it). With
        `gate`, operations of other threads than the main one wait until nobody else goes on. `strike` is asked before
        every operation whether to kill the process that is to do it, and that one alone.

        Who stands still for `patience` seconds is ended (with `strike`: who has nothing to do with files for so long),
        and so is a process that takes more than `cpu_seconds`.
        """
        self._lives += 1
        own = [Path(tempfile.mkdtemp(prefix="life-")) for _ in range(ranks)]
        meeting = _Meeting(1 if strangers else ranks)
        processes = []
        try:
            for rank in range(ranks):
                ours, theirs = socket.socketpair()
                write = [own[rank], *([folder] if folder else ()), *rooms, *self._shared_memory]
                place = _Place(rank, ranks, theirs, meeting, write, folder is not None, cpu_seconds)
                pid = supervise.fork(functools.partial(self._live, act, arguments, place))
                theirs.close()
                processes.append(Process(rank, pid, ours))
            meeting.close()
            watch = Watch(processes, folder, [*own, *rooms], kill, gate, strike, patience)
            watch.until_all_are_gone()
        finally:
            for process in processes:
                process.end()
            meeting.close()
            self._end_strays()
            for path in own:
                shutil.rmtree(path, ignore_errors=True)
            for path in self._shared_memory:
                disk.empty(path)
        left: disk.Files = watch.disk.after_a_power_cut() if watch.disk else {}
        ended = [Ended(process.rank, json.dumps(process.event), process.blob) for process in processes]
        return Life(ended, watch.steps, watch.killed, left, len(watch.at_the_gate))

    def _end_strays(self) -> None:
        """End what lives have left behind, also in sessions of its own: orphans come to us, who are their subreaper."""
        while strays := set(supervise.children()) - self.spared:
            supervise.send(strays, signal.SIGKILL)
            for pid in strays:
                os.waitpid(pid, 0)

    def _live(self, act: Callable[..., Any], arguments: tuple[Any, ...], place: _Place) -> None:
        """In a fresh fork: be a rank of a life."""
        channel = place.channel
        place.settle(self._seed + 1000 * self._lives + place.rank)
        stage = "load"
        try:
            found: dict[str, Any] = {"$code": self._code}
            problems: dict[str, str] = {}
            if self._functions:
                module = program.load(self._code, self._source, self._file)
                found, problems = learner.find_functions(module, self._functions)
            stage = "call"
            if place.watched:
                listener = listen()
                socket.send_fds(channel, [b"L"], [listener])
                os.close(listener)
            else:
                channel.sendall(b"-")
            value = act(Functions(found, problems), *arguments)
        except BaseException as error:
            learner.print_traceback(error)
            channel.sendall(frames.pack_message(told(error, self._file, stage)))
        else:
            sys.stdout.flush()
            tree, blob = frames.encode(value, learner.tensor_bytes)
            channel.sendall(frames.pack_message({"event": "returned", "value": tree}, blob))


@dataclass
class _Place:
    """One rank's place in a life: to whom it talks, where it may write, what it may take."""

    rank: int
    ranks: int
    channel: socket.socket
    meeting: _Meeting
    write: Sequence[Path]
    watched: bool
    cpu_seconds: int

    def settle(self, seed: int) -> None:
        """In a fresh fork: give up what is not for a learner's code, and meet the others."""
        os.setpgid(0, 0)
        supervise.close_others({NOTE, self.channel.fileno(), *self.meeting.descriptors()})
        keep_to(list(map(str, self.write)))
        seccomp.install(seccomp.refusing(seccomp.ATTRIBUTES))  # a folder's hold kilobytes; Landlock lets them
        signal.signal(signal.SIGXCPU, _out_of_time)
        resource.setrlimit(resource.RLIMIT_CPU, (self.cpu_seconds, self.cpu_seconds + 1))
        _start_from(seed)
        rank, ranks = str(self.rank), str(self.ranks)
        os.environ.update(RANK=rank, WORLD_SIZE=ranks, LOCAL_RANK=rank, LOCAL_WORLD_SIZE=ranks)
        self.meeting.meet(self.rank)


class OutOfTime(BaseException):
    """A process has used all the CPU time that it may use."""


def _out_of_time(*_: Any) -> None:
    raise OutOfTime


def told(error: BaseException, file: str, stage: str) -> dict[str, Any]:
    """The event of an exception that left the learner's code."""
    event = learner.raised(error, file, stage)
    if isinstance(error, OutOfTime):
        used = resource.getrlimit(resource.RLIMIT_CPU)[0] - 1  # with the signal the kernel allows one second more
        event |= {"why": "stuck", "text": f"its process used {used} s of CPU time, all that is allowed"}
    return event


def _start_from(seed: int) -> None:
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed % 2**32)
