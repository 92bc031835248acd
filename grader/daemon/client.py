"""The console script `rankup`: has the warm service do what takes long to begin with, and does all else here.

    rankup ...                                          or python -m grader.daemon.client [--lines]

Imports little, because every command waits for it. Where no service can be had, a command is done here, as it is with
--no-service and where RANKUP_NO_SERVICE is set.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import gc
import json
import os
import signal
import socket
import sys
import termios

from grader.daemon import place

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import NoReturn

    from grader.sandbox.warm import Warm

SERVED = ("grade", "run", "watch")
IF_THERE = ("list", "hint", "solution")  # quick, and quicker where a service is there
LINES = "--lines"  # in place of a command: serve a notebook's requests, line by line
ALONE, NO_SERVICE = "--no-service", "RANKUP_NO_SERVICE"
READY = b"?"  # from the service: it listens. What is told before is kept for it, and so would our terminal be
BEGUN = b"+"  # from the service, before it does anything; its last word is the exit status, as one byte
FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
ENDED = 2
MEMORY = "glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=33554432:glibc.malloc.trim_threshold=134217728"
WAIT_SECONDS = 0.4
GARBAGE = 100_000  # objects more than before, after which a process that grades once looks for what can go
HANG_SECONDS = 60.0  # that a service may take to begin with a command: it may have to start first


def main() -> None:
    """The console script."""
    arguments = sys.argv[1:]
    own = arguments[: arguments.index("--")] if "--" in arguments else arguments
    if ALONE in own:
        os.environ[NO_SERVICE] = "1"
        arguments.remove(ALONE)
        sys.argv[1:] = arguments
    status = None
    try:
        start = worthwhile(arguments)
        if not {NO_SERVICE, "PYTHONPATH"} & {*os.environ} and (start or {*IF_THERE} & {*arguments[:1]}):
            status = asked(start)
        if status is None:
            status = done_here(arguments)
    except KeyboardInterrupt:
        status = 130
    _leave(status)


def _leave(status: int) -> NoReturn:
    """End with this status, without taking apart what was imported: that takes a quarter of the time of importing it.
    Where there is more to do, as Python itself ends."""
    threading = sys.modules.get("threading")
    if threading is None or all(each.daemon for each in threading.enumerate() if each is not threading.main_thread()):
        atexit._run_exitfuncs()
        with contextlib.suppress(OSError, ValueError, AttributeError):  # nobody reads it any more, or it is closed
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
    sys.exit(status)


def worthwhile(arguments: Sequence[str]) -> bool:
    """Whether this command is going to start what the service has warm."""
    if arguments[:1] == [LINES]:
        return True
    if not arguments or arguments[0] not in SERVED or {"-h", "--help"} & {*arguments}:
        return False
    if arguments[0] == "run" and "-m" in arguments:
        return True
    names = [argument.partition(":")[0] for argument in arguments[1:] if not argument.startswith("-")]
    return any(os.path.isfile(name) or (arguments[0] != "run" and name.isidentifier()) for name in names)


def done_here(arguments: Sequence[str], warm: Warm | None = None) -> int:
    """The exit status of a command that this process does, with a host that is warm, or with one of its own: that
    imports torch while we import the rest."""
    if arguments[:1] == ["grade"]:
        gc.set_threshold(GARBAGE)  # as `grading` has it for as long as it takes: then nothing looks right after it
    if warm is None and worthwhile(arguments):
        from grader.ranks import WORKER
        from grader.sandbox.warm import Warm

        warm = Warm(WORKER)
    if arguments[:1] == [LINES]:
        from grader.classroom import service

        return service.main(warm)
    from grader import cli

    return cli.command(warm)


def asked(start: bool) -> int | None:
    """The exit status of a command that the service did, with what are our terminal, folder and environment; None where
    there is no service, with `start` that none can be had, and nothing was done."""
    if None in (sys.stdin, sys.stdout, sys.stderr):  # closed by the caller: nothing to be handed on
        return None
    try:
        connection = _connection(start)
        if connection is None:
            return None
        with connection, _terminal_kept():
            try:
                connection.settimeout(HANG_SECONDS)
                if _first(connection) != READY:
                    return None
                _tell(connection)
                if connection.recv(1) != BEGUN:
                    return None
            except TimeoutError:
                print("rankup: the warm service does not answer. This is done without it.", file=sys.stderr)
                os.unlink(connection.getpeername())  # it ends when it sees that, and the next command starts another
                return None
            connection.settimeout(None)
            _forward(connection)
            ended = connection.recv(1)
    except OSError:
        return None
    if not ended:
        print("rankup: the warm service was ended while it did this. Give the command again.", file=sys.stderr)
        return ENDED
    if ended[0] == 128 + signal.SIGKILL:
        print("rankup: the process that did this was killed. Give the command again.", file=sys.stderr)
    return ended[0]


@contextlib.contextmanager
def _terminal_kept() -> Iterator[None]:
    """The terminal is afterwards as it was, also where the service was killed and could not see to it."""
    before = termios.tcgetattr(0) if os.isatty(0) else None
    try:
        yield
    finally:
        if before is not None and os.tcgetpgrp(0) == os.getpgrp():
            termios.tcsetattr(0, termios.TCSADRAIN, before)


def _first(connection: socket.socket) -> bytes:
    """The service's first word; on a terminal, whoever waits for it is told why."""
    connection.settimeout(WAIT_SECONDS)
    try:
        return connection.recv(1)
    except TimeoutError:
        connection.settimeout(HANG_SECONDS)
    seen = sys.stderr.isatty()
    if seen:
        print("starting the warm service ...", end="", file=sys.stderr, flush=True)
    try:
        return connection.recv(1)
    finally:
        if seen:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _tell(connection: socket.socket) -> None:
    """Say what is to be done, and hand on what are our terminal and folder."""
    streams = [(stream.encoding, stream.errors) for stream in (sys.stdin, sys.stdout, sys.stderr)]
    umask = os.umask(0)
    os.umask(umask)
    request = {"arguments": sys.argv[1:], "environment": dict(os.environ), "streams": streams, "umask": umask}
    text = json.dumps(request).encode()
    here = os.open(".", os.O_RDONLY)
    socket.send_fds(connection, [len(text).to_bytes(4, "big")], [0, 1, 2, here])
    os.close(here)
    connection.sendall(text)


def _forward(connection: socket.socket) -> None:
    """From now on what is sent to us, and not ignored, is sent on as numbers of signals; we stop and go on together."""

    def tell(number: int) -> None:
        with contextlib.suppress(OSError):
            connection.send(bytes([number]))

    def stop(*_: object) -> None:
        tell(signal.SIGSTOP)
        os.kill(os.getpid(), signal.SIGSTOP)
        tell(signal.SIGCONT)

    for each, handler in (*((each, lambda number, _: tell(number)) for each in FORWARDED), (signal.SIGTSTP, stop)):
        if signal.getsignal(each) != signal.SIG_IGN:  # as nohup has it
            signal.signal(each, handler)


def _connection(start: bool) -> socket.socket | None:
    """To the service, with `start` to a new one where there is none; None where it cannot be had."""
    folder = place.folder()
    if folder is None:
        return None
    installation, version = place.name()
    path = os.path.join(folder, f"{installation}-{version}.sock")
    found = _connected(path)
    if found is not None or not start:
        return found
    lock = os.open(os.path.join(folder, f"{installation}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)  # somebody else may be starting one now
        return _connected(path) or _started(folder, installation, path)
    finally:
        os.close(lock)


def _connected(path: str) -> socket.socket | None:
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(path)
        if place.ours(connection):
            return connection
    except OSError:
        pass
    connection.close()
    return None


def _started(folder: str, installation: str, path: str) -> socket.socket | None:
    """To a new service; those of other versions end when they see that their sockets are gone."""
    for name in os.listdir(folder):
        if name.startswith(f"{installation}-"):
            os.unlink(os.path.join(folder, name))
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen(1024)
        import subprocess  # which no other command waits for

        subprocess.Popen(
            [sys.executable, "-P", "-m", "grader.daemon.server", str(listening.fileno()), path],
            pass_fds=[listening.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            # a command takes and frees memory by the MiB: what the kernel has once given is kept, in huge pages
            env={"GLIBC_TUNABLES": MEMORY, **os.environ},
            start_new_session=True,
            cwd="/",
        )
    return _connected(path)


if __name__ == "__main__":
    main()
