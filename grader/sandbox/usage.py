"""What processes use, read from /proc. Processes may vanish while they are being counted.

Everything goes through a descriptor of a /proc folder: a box has one of its own, in which only its processes are. On
systems without it there is NO_FOLDER, and psutil tells what it can.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass

from grader.sandbox import LINUX

if not LINUX:
    import psutil

NO_FOLDER = -1
MANY_THREADS = 32  # of one process: then one look at all processes costs less than one at each thread's children
_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Process:
    """One process: its parent, threads, CPU seconds (its own, and of children it waited for), and bytes of memory;
    files that it has mapped, and what it shares with others, count in full. `ready`: it runs, or waits for a core."""

    pid: int
    parent: int
    threads: int
    cpu_seconds: float
    reaped_cpu_seconds: float
    resident_bytes: int
    ready: bool


@contextlib.contextmanager
def machine() -> Iterator[int]:
    """A descriptor of the /proc folder that this process itself sees."""
    if not LINUX:
        yield NO_FOLDER
        return
    folder = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield folder
    finally:
        os.close(folder)


def read(folder: int, pid: int, name: str) -> bytes:
    """A file of a process below the /proc folder with descriptor `folder`. Raises OSError."""
    fd = os.open(f"{pid}/{name}", os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
    try:
        return b"".join(iter(lambda: os.read(fd, 2**16), b""))  # the kernel gives long lists in parts
    finally:
        os.close(fd)


def process(folder: int, pid: int) -> Process | None:
    """One process; None if it is gone."""
    if folder == NO_FOLDER:
        return _told(pid)
    try:
        fields = read(folder, pid, "stat").rpartition(b")")[2].split()  # the name before may hold anything
    except OSError:
        return None
    own, reaped = (int(fields[i]) + int(fields[i + 1]) for i in (11, 13))
    return Process(
        pid, int(fields[1]), max(1, int(fields[17])), own / _TICKS, reaped / _TICKS, int(fields[21]) * _PAGE,
        fields[0] == b"R",
    )  # fmt: skip


def _told(pid: int) -> Process | None:
    """A process, as psutil tells it. That it waits for a core is not known: who computes is seen by its CPU time."""
    try:
        found = psutil.Process(pid)
        with found.oneshot():
            if found.status() == psutil.STATUS_ZOMBIE:
                return None
            cpu, memory = found.cpu_times(), found.memory_info()
            reaped = getattr(cpu, "children_user", 0.0) + getattr(cpu, "children_system", 0.0)
            return Process(
                pid, found.ppid(), found.num_threads(), cpu.user + cpu.system, reaped, memory.rss, ready=False
            )
    except psutil.Error:
        return None


def everybody(folder: int) -> list[Process]:
    """All processes in a /proc folder, in no order."""
    found = (process(folder, int(name)) for name in os.listdir(folder) if name.isdigit())
    return [each for each in found if each is not None]


def tree(folder: int, pid: int) -> list[Process]:
    """A process and everything below it, parents first; empty if it is gone."""
    top = process(folder, pid)
    if top is None:
        return []
    if folder == NO_FOLDER:
        with contextlib.suppress(psutil.Error):
            return [top, *filter(None, (_told(each.pid) for each in psutil.Process(pid).children(recursive=True)))]
        return [top]
    found, known = [top], {pid}
    for each in found:  # grows while it is read
        below = None if each.threads > MANY_THREADS else _children(folder, each.pid)
        if below is None:
            return _tree_of_all(folder, top)
        for child in below - known:
            known.add(child)
            if there := process(folder, child):
                found.append(there)
    return found


def _tree_of_all(folder: int, top: Process) -> list[Process]:
    """The same from the parents of all processes in the folder."""
    below: dict[int, list[Process]] = {}
    for each in everybody(folder):
        below.setdefault(each.parent, []).append(each)
    found = [top]
    for each in found:
        found += below.pop(each.pid, [])
    return found


def _children(folder: int, pid: int) -> set[int] | None:
    """A process's children, of every thread; None where this kernel does not tell."""
    found: set[int] = set()
    try:
        threads = _listed(folder, f"{pid}/task")
    except OSError:
        return found
    for thread in threads:
        try:
            found |= {int(child) for child in read(folder, pid, f"task/{thread}/children").split()}
        except FileNotFoundError:
            with contextlib.suppress(OSError):
                os.stat(f"{pid}/task/{thread}/stat", dir_fd=folder)
                return None
        except OSError:
            continue
    return found


def delayed_seconds(folder: int, pid: int) -> float:
    """For how long a process's threads, added up, were ready to run while no processor was free; 0 where the kernel
    does not tell. Source: Documentation/scheduler/sched-stats.rst, /proc/<pid>/task/<tid>/schedstat."""
    nanoseconds = 0
    with contextlib.suppress(OSError):
        for thread in _listed(folder, f"{pid}/task"):
            with contextlib.suppress(OSError, IndexError, ValueError):
                nanoseconds += int(read(folder, pid, f"task/{thread}/schedstat").split()[1])
    return nanoseconds / 1e9


def own_bytes(folder: int, pid: int) -> int:
    """A process's memory that is no file's; what it shares with others counts in full. Nothing if it is gone. Without
    /proc files count, too."""
    if folder == NO_FOLDER:
        found = _told(pid)
        return found.resident_bytes if found else 0
    try:
        lines = read(folder, pid, "status").splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith((b"RssAnon:", b"RssShmem:")))


def proportional_bytes(folder: int, pid: int) -> tuple[int, int] | None:
    """A process's memory, what several share divided among them (proportional set size), and how much of it is shared
    memory or files in memory. Takes milliseconds. Nothing if it is gone; None where it may not be read."""
    if folder == NO_FOLDER:
        return own_bytes(folder, pid), 0
    try:
        lines = read(folder, pid, "smaps_rollup").splitlines()[1:]
    except (FileNotFoundError, ProcessLookupError):
        return 0, 0
    except OSError:
        return None
    fields = dict(line.split(b":", 1) for line in lines)
    pss, shared = (int(fields.get(name, b"0 kB").split()[0]) * 1024 for name in (b"Pss", b"Pss_Shmem"))
    return pss, shared


def sockets(folder: int, pid: int) -> list[int]:
    """The inodes of the sockets that a process has open."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for name in _listed(folder, f"{pid}/fd"):
            with contextlib.suppress(OSError):
                kind, _, inode = os.readlink(f"{pid}/fd/{name}", dir_fd=folder).partition(":")
                if kind == "socket":
                    found.append(int(inode.strip("[]")))
    return found


def _listed(folder: int, name: str) -> list[str]:
    fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    try:
        return os.listdir(fd)
    finally:
        os.close(fd)


def processors() -> list[int]:
    """The numbers of those that this process may run on."""
    return sorted(os.sched_getaffinity(0)) if LINUX else list(range(os.cpu_count() or 1))


def available_bytes() -> int:
    """How much memory new processes can have without swapping."""
    import psutil  # few ask

    return int(psutil.virtual_memory().available)
