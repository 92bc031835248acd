"""Processes that end with whoever started them: to fork one, and to end all that is below one.

What is looked after is a tree. Some in it detach themselves: these come to their subreaper when they are orphans, which
only Linux has: elsewhere they are lost sight of. On Linux of the standard library alone, so that it is quick to import,
and there in every box.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import resource
import select
import signal
import time
import traceback
from collections.abc import Callable, Collection, Sequence
from typing import Any

from grader.sandbox import LINUX, usage

if not LINUX:
    import psutil

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER = 1, 4, 36
FAILED = 70  # exit status of a child whose work raised something
KILL_ROUNDS = 50
MOST_OPEN = 2**20  # files of a process, where the system has no limit
POLL_SECONDS = 0.005


def prctl(option: int, value: int) -> None:
    """Nothing on systems without it: there, children see by their sockets that who started them is gone."""
    if LINUX:
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def become_subreaper() -> None:
    """Orphans among our descendants come to us."""
    prctl(PR_SET_CHILD_SUBREAPER, 1)


def fork(act: Callable[[], int | None], dies: bool = True) -> int:
    """The process id of a new child, which does `act()` and ends with what that returns, 0 for None.

    With `dies` it is killed when the thread that forked it ends. Handlers that wake us up are not for it.
    """
    parent = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    status = FAILED
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        if dies:
            prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if not dies or os.getppid() in (parent, 0):  # 0: it is the first of a namespace
            status = act() or 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def close_others(kept: Collection[int]) -> None:
    """Of the descriptors above 2, have these only."""
    below = 2
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    for fd in (*sorted(fd for fd in kept if fd > 2), most if 0 <= most < MOST_OPEN else MOST_OPEN):
        os.closerange(below + 1, fd)
        below = fd


def renumber(descriptors: Sequence[int]) -> None:
    """Have these descriptors as 0, 1, 2, ..., and no other."""
    spare = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, len(descriptors)) for fd in descriptors]
    for target, fd in enumerate(spare):
        os.dup2(fd, target)
    close_others(range(len(descriptors)))


def send(pids: Collection[int], *numbers: signal.Signals) -> None:
    """Send signals to processes that may be gone."""
    for pid in pids:
        for number in numbers:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)


def children() -> list[int]:
    """The process ids of this thread's own children, as /proc has them; without it, of this process's."""
    try:
        with open("/proc/thread-self/children") as listing:
            return [int(pid) for pid in listing.read().split()]
    except OSError:
        with usage.machine() as folder:
            below = usage.everybody(folder) if LINUX else usage.tree(folder, os.getpid())
            return [each.pid for each in below if each.parent == os.getpid()]


def end_descendants(known: Collection[int] | None = None) -> None:
    """Kill and reap every descendant, until there is none (orphans come to us: we are their subreaper; without one, all
    that is below is killed at once).

    `known` are all children there can be, where orphans stay in namespaces of their own, and /proc may be another's.
    """
    while True:
        below = children() if LINUX else tree(os.getpid())[1:]
        send(below if known is None else known, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def tree(pid: int) -> list[int]:
    """Process `pid` and everything below it, parents first; empty if it is gone."""
    with usage.machine() as folder:
        return [process.pid for process in usage.tree(folder, pid)]


class Handle:
    """A process, for which no other is taken that has its number later. Raises OSError where it is gone. Close it."""

    def __init__(self, pid: int) -> None:
        self._fd = os.pidfd_open(pid) if LINUX else -1
        try:
            self._process: Any = None if LINUX else psutil.Process(pid)
        except psutil.Error:
            raise ProcessLookupError(pid) from None

    def send(self, number: signal.Signals) -> None:
        """Send it a signal; nothing where it is gone."""
        with contextlib.suppress(OSError):
            if LINUX:
                signal.pidfd_send_signal(self._fd, number)
                return
            with contextlib.suppress(psutil.Error):
                self._process.send_signal(number)

    def ended(self, seconds: float) -> bool:
        """Whether it ends in so many seconds."""
        if LINUX:
            poll = select.poll()
            poll.register(self._fd, select.POLLIN)
            return bool(poll.poll(max(0.0, 1000 * seconds)))
        until = time.monotonic() + seconds
        while (running := self._runs()) and time.monotonic() < until:
            time.sleep(POLL_SECONDS)
        return not running

    def _runs(self) -> bool:
        try:
            return bool(self._process.is_running() and self._process.status() != psutil.STATUS_ZOMBIE)
        except psutil.Error:
            return False

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)


def kill_tree(pid: int, seconds: float = 5.0) -> None:
    """Kill process `pid` and everything below it, and wait for their end, for so many seconds at most.

    They need not be ours. All are stopped before the first is killed: a stopped process has no further child, and a
    parent that is killed first would let go of its children.
    """
    stopped: dict[int, Handle] = {}
    try:
        for _ in range(KILL_ROUNDS):
            new = [found for found in tree(pid) if found not in stopped]
            if not new:
                break
            for found in new:
                with contextlib.suppress(OSError):
                    stopped[found] = Handle(found)
                    stopped[found].send(signal.SIGSTOP)
        for handle in reversed(stopped.values()):
            handle.send(signal.SIGKILL)
        deadline = time.monotonic() + seconds
        for handle in stopped.values():
            handle.ended(deadline - time.monotonic())
    finally:
        for handle in stopped.values():
            handle.close()
