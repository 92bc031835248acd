"""The warm process: imports a module once, then forks a keeper for every world, and the keeper forks its ranks.

    python -m grader.sandbox.host FD MODULE

FD is a SOCK_SEQPACKET socket. Each request is a JSON object {"ranks": N, "scratch": folder} with 1 + 3N descriptors:
the keeper's own socket, then per rank its frame socket, its stdout and its stderr. A keeper tells over its socket
which rank ended and how, takes "kill" and "stacks", and on "kill" or end of file ends every descendant, also those
that detached themselves: it is their subreaper, and goes on until it has no child left.
The whole tree ends when the grading process closes its sockets, or dies.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import json
import os
import resource
import selectors
import shutil
import signal
import socket
import sys
import time
import traceback
from types import ModuleType

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
MAX_RANKS = 80
STACKS_SIGNAL = signal.SIGUSR2
TRACE_SIGNAL = signal.SIGUSR1  # a rank that has not told everything it recorded is to do so


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def children() -> list[int]:
    """The process ids of this process's own children."""
    me = os.getpid()
    try:
        with open(f"/proc/{me}/task/{me}/children") as listing:
            return [int(pid) for pid in listing.read().split()]
    except OSError:
        return [pid for pid in _all_processes() if _parent(pid) == me]


def _all_processes() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _parent(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return int(stat.read().rpartition(")")[2].split()[1])
    except OSError:
        return -1


def end_descendants() -> None:
    """Kill and reap every descendant, until there is none (orphans come to us: we are their subreaper)."""
    while True:
        for pid in children():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _rank(rank: int, fds: tuple[int, int, int], scratch: str, module: ModuleType) -> None:
    """In a fresh fork: become rank `rank`. Never returns."""
    frames, out, err = fds
    status = 70
    try:
        os.setsid()
        _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(out, 1)
        os.dup2(err, 2)
        os.dup2(frames, 3)
        os.closerange(4, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.chdir(scratch)
        status = module.main(rank, socket.socket(fileno=3))
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def _keep(descriptors: list[int], ranks: int, scratch: str, module: ModuleType) -> None:
    """In a fresh fork: fork the ranks, report their ends, and end all of it on request. Never returns."""
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        _prctl(PR_SET_CHILD_SUBREAPER, 1)
        boss = socket.socket(fileno=descriptors[0])
        watch = selectors.DefaultSelector()
        watch.register(boss, selectors.EVENT_READ, None)
        pids: dict[int, int] = {}
        for rank in range(ranks):
            fds = (descriptors[3 * rank + 1], descriptors[3 * rank + 2], descriptors[3 * rank + 3])
            pid = os.fork()
            if pid == 0:
                watch.close()
                _rank(rank, fds, scratch, module)
            pids[pid] = rank
            watch.register(os.pidfd_open(pid), selectors.EVENT_READ, pid)
        for fd in descriptors[1:]:
            os.close(fd)
        _send(boss, {"pids": list(pids)})
        while True:
            for key, _ in watch.select():
                if key.data is None:
                    command = boss.recv(64)
                    if command == b"stacks":
                        for pid in pids:
                            with contextlib.suppress(ProcessLookupError):
                                os.kill(pid, TRACE_SIGNAL)
                                os.kill(pid, STACKS_SIGNAL)
                    else:
                        return
                else:
                    _, status = os.waitpid(key.data, 0)
                    watch.unregister(key.fileobj)
                    rank = pids.pop(key.data)
                    _send(boss, {"rank": rank, "status": os.waitstatus_to_exitcode(status)})
    finally:
        end_descendants()
        shutil.rmtree(scratch, ignore_errors=True)
        os._exit(0)


def _send(boss: socket.socket, message: dict[str, object]) -> None:
    with contextlib.suppress(OSError):
        boss.send(json.dumps(message).encode())


class _Host:
    def __init__(self, control: socket.socket, module: ModuleType) -> None:
        self.control = control
        self.module = module
        self.keepers: set[int] = set()

    def serve(self) -> None:
        signal.signal(signal.SIGCHLD, lambda *_: self._reap())
        while True:
            data, fds, _, _ = socket.recv_fds(self.control, 65536, 1 + 3 * MAX_RANKS)
            if not data:
                return
            request = json.loads(data)
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
            pid = os.fork()
            if pid == 0:
                signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
                self.control.close()
                _keep(fds, request["ranks"], request["scratch"], self.module)
            self.keepers.add(pid)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
            for fd in fds:
                os.close(fd)

    def wait_for_keepers(self, seconds: float = 5.0) -> None:
        """Let keepers end their worlds and remove their files: they, too, see that the grading process is gone."""
        deadline = time.monotonic() + seconds
        while self.keepers and time.monotonic() < deadline:
            signal.sigtimedwait({signal.SIGCHLD}, 0.05)
            self._reap()

    def _reap(self) -> None:
        """Forget keepers that ended; end whoever came to us because its keeper was killed."""
        with contextlib.suppress(ChildProcessError):
            while (pid := os.waitpid(-1, os.WNOHANG)[0]) != 0:
                self.keepers.discard(pid)
        for stranger in set(children()) - self.keepers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(stranger, signal.SIGKILL)


def main(argv: list[str]) -> None:
    """Import the module named in argv[2], say "ready", and serve requests until end of file."""
    gc.disable()  # a third of the time of `import torch` is garbage collection that finds nothing
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    control = socket.socket(fileno=int(argv[1]))
    module = importlib.import_module(argv[2])
    gc.freeze()
    gc.enable()
    control.send(b"ready")
    host = _Host(control, module)
    try:
        host.serve()
    finally:
        host.wait_for_keepers()
        end_descendants()
        os._exit(0)  # nothing to clean up, and tearing a torch process down takes time


if __name__ == "__main__":
    main(sys.argv)
