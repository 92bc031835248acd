"""The warm process: imports a module once, then forks a keeper for every box, and the keeper forks what runs in it.

    python -m grader.sandbox.host FD MODULE MODE

FD is the end of a socket (see `packets`). Each request is a JSON object {"ranks": N, "limits": {...}, "scratch":
folder, "folder": of a program} with 1 + 4N descriptors: the keeper's own socket, then per rank its frame socket, its
stdout, its stderr and its note (see `first`); and in a full box one more for a program's folder (see `folder`). MODE
says how boxes are shut: "full" (this process runs inside bubblewrap, and every box gets namespaces of its own) or
"none". The whole tree ends when the grading process closes its sockets, or dies.

    python -m grader.sandbox.host --probe MODE

makes one empty box and says by its exit status whether that works here: 0, or 77.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import importlib
import json
import os
import select
import signal
import sys
from collections.abc import Iterator
from types import ModuleType

from grader.sandbox import LINUX, entry, first, keeper, packets
from grader.sandbox.folder import Folder
from grader.sandbox.limits import BoxLimits
from grader.sandbox.supervise import become_subreaper, children, end_descendants, fork, send

MAX_RANKS = 56  # as many descriptors as one message can carry
REFUSED = 77  # exit status: no box can be made in this mode
HUGE_PAGE, COLLAPSE = 2**21, 25  # see madvise(2)
PIECE = 8 * HUGE_PAGE  # bytes collapsed at once: nobody is to wait long for the next box
IDLE_SECONDS, MANY_BOXES = 2.0, 24  # when huge pages are made: nobody is kept waiting, or so many boxes pay for them


class _Host:
    def __init__(self, control: packets.Packets, module: ModuleType, mode: str) -> None:
        self.control, self.module, self.mode = control, module, mode
        self.keepers: set[int] = set()
        self._boxes = 0  # up to now
        self._pieces: Iterator[None] | None = _collapsed()

    def serve(self) -> None:
        signal.signal(signal.SIGCHLD, lambda *_: self._reap())
        while True:
            self._use_the_time()
            data, fds = self.control.take_with(2 + 4 * MAX_RANKS)
            if not data:
                return
            request = json.loads(data)
            if "import" in request:
                _import(request["import"])
                self._pieces = _collapsed()
                self.control.put(b"imported")
                continue
            wanted = first.Wanted(
                request["ranks"], BoxLimits.from_json(request["limits"]), request["scratch"], self.mode,
                Folder.from_json(request["folder"]),
            )  # fmt: skip
            self._boxes += 1
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
            self.keepers.add(fork(functools.partial(self._keep, fds, wanted), dies=False))
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
            for fd in fds:
                os.close(fd)

    def _use_the_time(self) -> None:
        """Until something is asked, once nothing was for a while and no box is there, make what is here cheap to fork;
        without a break where many boxes are wanted. A box that was forked before shares no huge page with us."""
        asked, seconds = select.poll(), IDLE_SECONDS
        asked.register(self.control.fileno(), select.POLLIN)
        while self._pieces is not None:
            if self._boxes < MANY_BOXES:
                if asked.poll(1000 * seconds):
                    return
                if self.keepers:
                    seconds = IDLE_SECONDS
                    continue
            seconds = 0.0
            if next(self._pieces, self) is not None:  # there is none left
                self._pieces = None

    def _keep(self, fds: list[int], wanted: first.Wanted) -> None:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
        self.control.close()
        keeper.keep(fds, wanted, self.module)

    def wait_for_keepers(self, seconds: float = 5.0) -> None:
        """Let keepers end their boxes and remove their files: they, too, see that the grading process is gone."""
        news = {signal.SIGCHLD, signal.SIGALRM}
        signal.pthread_sigmask(signal.SIG_BLOCK, news)
        signal.setitimer(signal.ITIMER_REAL, seconds)
        self._reap()
        while self.keepers and signal.sigwait(news) == signal.SIGCHLD:
            self._reap()

    def _reap(self) -> None:
        """Forget keepers that ended; end whoever came to us because its keeper was killed."""
        with contextlib.suppress(ChildProcessError):
            while (pid := os.waitpid(-1, os.WNOHANG)[0]) != 0:
                self.keepers.discard(pid)
        if self.mode == "full":
            return  # orphans stay in their box, and end with it
        send(set(children()) - self.keepers, signal.SIGKILL)


def _import(names: list[str]) -> None:
    """Import modules for all boxes to come; one that is not installed is for their programs to miss."""
    gc.disable()  # a third of the time would be garbage collection that finds nothing
    for name in names:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    _settle()


def _settle() -> None:
    """Nothing of what is there now is garbage."""
    gc.freeze()
    gc.enable()


def _collapsed() -> Iterator[None]:
    """Make what is there cheap to fork, a piece with each step: in huge pages it has fewer page table entries to copy.
    Measured with torch: a fork and its end 7 ms, with this 4 ms. To make them takes as long as a hundred forks save, so
    that the first verdict does not wait for it."""
    if not LINUX:
        return
    madvise = ctypes.CDLL(None).madvise
    with open("/proc/self/maps") as maps:
        found = [line.split() for line in maps]
    for fields in found:
        begin, end = (int(place, 16) for place in fields[0].split("-"))
        begin, end = -(-begin // HUGE_PAGE) * HUGE_PAGE, end // HUGE_PAGE * HUGE_PAGE
        if fields[1] != "rw-p" or fields[5:] not in ([], ["[heap]"]):
            continue
        for piece in range(begin, end, PIECE):
            madvise(ctypes.c_void_p(piece), ctypes.c_size_t(min(PIECE, end - piece)), COLLAPSE)  # in vain before 6.1
            yield


def probe(mode: str) -> int:
    """Whether a box can be made in this mode: 0, or REFUSED. A box made in vain costs some 10 ms."""

    def tried() -> int:
        why = keeper.refused() if mode == "full" else ""
        if why:
            print(why, file=sys.stderr, flush=True)
        return REFUSED if why else 0

    return os.waitstatus_to_exitcode(os.waitpid(fork(tried), 0)[1])


def main(argv: list[str]) -> None:
    """Import the module named in argv[2], say "ready", and serve requests until end of file."""
    if argv[1] == "--probe":
        os._exit(probe(argv[2]))
    mode = argv[3]
    if probe(mode):
        os._exit(REFUSED)
    gc.disable()  # a third of the time of `import torch` is garbage collection that finds nothing
    become_subreaper()
    control = packets.of(int(argv[1]))
    importlib.import_module(argv[2])
    if mode == "full":
        first.prepare()
    _settle()
    control.put(b"ready")
    host = _Host(control, entry, mode)
    try:
        host.serve()
    finally:
        host.wait_for_keepers()
        end_descendants(host.keepers if mode == "full" else None)
        os._exit(0)  # nothing to clean up, and tearing a torch process down takes time


if __name__ == "__main__":
    main(sys.argv)
