"""A box's first process: it forks the ranks, each of which gives up what its code is not to have, and reaps.

What the box uses, and when it is to end, is the business of its keeper outside (see `keeper`).

Every rank has four descriptors: 0 to 2 as usual, 3 its frames, 4 its note: memory shared with the grading process, 8
bytes for a number and then stack dumps; rank 0 of several also 5, a listening socket for their store.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import selectors
import signal
import socket
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from grader.sandbox import LINUX, bwrap, capabilities, folder, landlock, namespaces, packets, seccomp, supervise
from grader.sandbox.folder import Folder
from grader.sandbox.limits import BoxLimits
from grader.sandbox.supervise import become_subreaper

STACKS_SIGNAL = signal.SIGUSR2
TRACE_SIGNAL = signal.SIGUSR1  # a rank that has not told everything it recorded is to do so
NOTE, STORE = 4, 5

_filters: dict[bool, bytes] = {}  # by whether unix sockets may be opened


@dataclass(frozen=True)
class Wanted:
    """A box to be made: how many ranks, what they may use, where their files are (unless "full"), the mode, and the
    folder in which a program of the user's own works, if that is what it is for."""

    ranks: int
    limits: BoxLimits
    scratch: str
    mode: str
    folder: Folder | None = None

    @property
    def full(self) -> bool:
        return self.mode == "full"


def prepare() -> None:
    """Make once what every box needs."""
    for unix_sockets in (False, True):
        _filters[unix_sockets] = seccomp.program(unix_sockets=unix_sockets)


def tell(to: packets.Packets, message: dict[str, Any]) -> None:
    """Tell somebody who may be gone already."""
    with contextlib.suppress(OSError):
        to.put(json.dumps(message).encode())


class First:
    """The box's first process: forks the ranks, tells of their ends, reaps whatever else ends."""

    def __init__(
        self,
        keeper: packets.Packets,
        descriptors: list[int],
        wanted: Wanted,
        module: ModuleType,
        store: socket.socket | None,
    ) -> None:
        self.keeper, self.descriptors, self.wanted, self.module, self.store = (
            keeper, descriptors, wanted, module, store,
        )  # fmt: skip
        self.ranks: dict[int, int] = {}  # by process id

    def live(self) -> None:
        """Until the keeper wants no more of the box."""
        become_subreaper()
        if self.wanted.full:
            namespaces.furnish(self.wanted.limits)
            if self.wanted.folder is not None:
                folder.furnish(self.wanted.folder, self.descriptors[-1])
        os.chdir(bwrap.SCRATCH if self.wanted.full else self.wanted.scratch)
        woken, waker = socket.socketpair()
        woken.setblocking(False)
        waker.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
        for number in range(self.wanted.ranks):
            os.mkdir(f"rank-{number}")
            self.ranks[supervise.fork(functools.partial(self._rank, number))] = number
        for fd in self.descriptors:
            os.close(fd)
        if self.store is not None:
            self.store.close()
        self._announce()
        if self.wanted.full:
            capabilities.drop_all()
            supervise.prctl(supervise.PR_SET_DUMPABLE, 0)
        self._wait(woken)

    def _announce(self) -> None:
        """Tell the keeper who the ranks are, and give it this box's /proc, where there is one."""
        folder = [os.open("/proc", os.O_RDONLY | os.O_DIRECTORY)] if LINUX else []
        self.keeper.put(json.dumps({"pids": list(self.ranks)}).encode(), folder)
        for fd in folder:
            os.close(fd)

    def _wait(self, woken: socket.socket) -> None:
        watch = selectors.DefaultSelector()
        watch.register(self.keeper, selectors.EVENT_READ)
        watch.register(woken, selectors.EVENT_READ)
        while True:
            self._reap()
            for key, _ in watch.select():
                if key.fileobj is woken:
                    with contextlib.suppress(BlockingIOError):
                        woken.recv(4096)
                elif not (command := self.keeper.take()):
                    supervise.send(self.ranks, signal.SIGKILL)  # not every kernel does, when we end
                    return
                elif command == b"stacks":
                    supervise.send(self.ranks, TRACE_SIGNAL, STACKS_SIGNAL)
                else:
                    wanted = int(command.removeprefix(b"end "))
                    supervise.send([pid for pid, rank in self.ranks.items() if rank == wanted], signal.SIGKILL)

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0] != 0:
                if ended[0] in self.ranks:
                    rank = self.ranks.pop(ended[0])
                    tell(self.keeper, {"rank": rank, "status": os.waitstatus_to_exitcode(ended[1])})

    def _rank(self, number: int) -> int:
        """In a fresh fork: be a rank. Returns an exit status."""
        frames, out, err, note = self.descriptors[4 * number : 4 * number + 4]
        os.setsid()
        port = self.store.getsockname()[1] if self.store is not None else 0
        store = [self.store.fileno()] if self.store is not None and number == 0 else []
        supervise.renumber([os.open(os.devnull, os.O_RDONLY), out, err, frames, note, *store])
        if self.wanted.limits.subreaper:
            become_subreaper()  # it can then find, and end, all that its children leave behind
        _shut(self.wanted, os.path.abspath(f"rank-{number}"))
        return int(self.module.main(number, socket.socket(fileno=3), port))


def _shut(wanted: Wanted, own: str) -> None:
    """Give up, in a rank, whatever its code is not to have. Nothing that is given up here can be had again."""
    wanted.limits.impose(alone=wanted.full)
    program = [wanted.folder.path] if wanted.folder is not None else []
    if wanted.full:
        # several ranks share nothing but the network: what they tell each other is counted there; but a program of the
        # user's own is not graded, and its ranks share files as they do elsewhere
        shared = [bwrap.SCRATCH, namespaces.SHARED_MEMORY] if wanted.ranks == 1 or program else []
        keep_to([own, *program, *shared], read=program)
        capabilities.drop_all()
        seccomp.install(_filters[wanted.limits.unix_sockets])
    else:
        settle(own)
    os.chdir(program[0] if program else own)


def settle(folder: str) -> None:
    """Work in this folder, with what is temporary there too."""
    os.chdir(folder)
    os.environ.update(HOME=folder, TMPDIR=folder)
    tempfile.tempdir = None


def keep_to(folders: Sequence[str], read: Sequence[str] = ()) -> None:
    """For good, write in these folders alone, and look into no sibling, as far as the kernel can see to that.

    The first one is where to work. `read` is what can be read besides the box's own.
    """
    settle(folders[0])
    if landlock.abi():
        landlock.restrict([*bwrap.seen(), *bwrap.OF_A_BOX, *read], [*folders, *bwrap.DEVICES, *bwrap.gpus()])
