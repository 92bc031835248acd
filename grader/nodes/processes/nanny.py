"""Looks after one node's processes: whatever the node starts, and however anything ends, nothing of it is left.

Run by path as a process of its own, between the harness and the node, so it imports only what is quick to import:

    python -I -S nanny.py CONTROL FOLDER COMMAND...

FOLDER is the node's own; where the harness is gone, the nanny removes it, and the one above it if that is then empty.
CONTROL is a seqpacket socket. The harness sends "stop", "cont" or "kill"; that it closes its end, also by dying, means
"kill". The nanny sends "started PID", or "failed ERRNO" where the command cannot be run, then "ended STATUS" as
`os.waitstatus_to_exitcode` gives it, and closes its end when no process is left.

A daemon that left its parent comes to the nanny (a child subreaper, prctl(2)); the node itself dies with the nanny.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import socket
import sys

IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # it ends when its work is done
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
libc = ctypes.CDLL(None, use_errno=True)


def main(control: socket.socket, folder: str, command: list[str]) -> None:
    """Run the command, and return when nothing of it is left."""
    control.set_inheritable(False)  # the node is not to have it
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    read_end, write_end = os.pipe()  # closed by a successful exec
    node = os.fork()
    if node == 0:
        _become(command, write_end)
    os.close(write_end)
    failure = os.read(read_end, 16)
    os.close(read_end)
    _tell(control, f"failed {failure.decode()}" if failure else f"started {node}")
    nothing = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):  # the node's: they are to close when the node's processes close them
        os.dup2(nothing, fd)
    status = _watch(control, node)
    _end_all()
    if _alone(control):
        _remove(folder)
    elif not failure:
        _tell(control, f"ended {status}")


def _become(command: list[str], failed: int) -> None:
    """In the fork: run the command, or tell why not. Never returns."""
    parent = os.getppid()
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it was gone before
        os._exit(1)
    for number in (*IGNORED, signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        os.write(failed, str(error.errno).encode())
    finally:
        os._exit(127)


def _watch(control: socket.socket, node: int) -> int:
    """Obey until the node has ended or is to end; what it ended with."""
    ended = os.pidfd_open(node)
    poll = select.poll()
    poll.register(ended, select.POLLIN)
    poll.register(control, select.POLLIN)
    while True:
        ready = {fd for fd, _ in poll.poll()}
        if ended in ready:
            return os.waitstatus_to_exitcode(os.waitpid(node, 0)[1])
        if control.fileno() in ready:
            asked = control.recv(16)
            if asked not in (b"stop", b"cont"):
                return -signal.SIGKILL
            for pid in descendants():
                _signal(pid, signal.SIGSTOP if asked == b"stop" else signal.SIGCONT)


def _end_all() -> None:
    """Kill all descendants and reap them. Those that fork while we count are stopped first, so the count ends."""
    seen: set[int] = set()
    while fresh := set(descendants()) - seen:
        for pid in fresh:
            _signal(pid, signal.SIGSTOP)
        seen |= fresh
    with contextlib.suppress(ChildProcessError):
        while True:
            for pid in descendants():
                _signal(pid, signal.SIGKILL)
            os.waitpid(-1, 0)
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def descendants() -> list[int]:
    """All processes below this one, those that have ended and are not reaped among them."""
    children: dict[int, list[int]] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:
            parent = int(file.read().rpartition(b")")[2].split()[1])
            children.setdefault(parent, []).append(int(name))
    found = [os.getpid()]
    for pid in found:  # grows as we go
        found.extend(children.get(pid, ()))
    return found[1:]


def _alone(control: socket.socket) -> bool:
    """Whether the harness is gone, and not only waiting."""
    control.setblocking(False)
    try:
        return not control.recv(16)
    except BlockingIOError:
        return False
    except OSError:
        return True


def _remove(folder: str) -> None:
    import shutil  # rarely needed, and slow to import

    shutil.rmtree(folder, ignore_errors=True)
    with contextlib.suppress(OSError):  # the last of several nannies finds it empty
        os.rmdir(os.path.dirname(folder))


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _tell(control: socket.socket, words: str) -> None:
    with contextlib.suppress(OSError):
        control.send(words.encode())


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])), sys.argv[2], sys.argv[3:])
