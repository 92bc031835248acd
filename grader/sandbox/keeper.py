"""A box's keeper and its first process: fork what runs in the box, watch what it uses, and end all of it.

The keeper is forked from the warm process, for one box, and stays outside of it: it enters the box's user and network
namespaces, but none of its processes can see it. It forks the box's first process, which forks the ranks and tells
how they end. Over its socket the keeper tells
  {"up": true}                                  the ranks have been forked
  {"rank": r, "status": s}                      a rank ended
  {"cpu": [seconds, ...]}                       CPU time per rank, when it has changed
  {"limit": name, "used", "allowed", "rank"}    a limit of the whole box was passed, and the box has been ended
  {"carried": bytes, "received": [bytes, ...]}  after "traffic": what the box's loopback has carried, and what the
                                                sockets that each rank has open have received; or {"carried": null}
and takes "stacks", "traffic" and "kill"; at the end of file it ends the box too. When it is gone, so is every process
of the box: they die with the first process of their namespace; in a box without one, the keeper is the subreaper of
those that detached themselves, and goes on until it has no child left.

Every rank has four descriptors: 0 to 2 as usual, 3 its frames, 4 its note: memory shared with the grading process, 8
bytes for a number and then stack dumps; rank 0 of several also 5, a listening socket for their store.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import selectors
import shutil
import signal
import socket
import sys
import tempfile
import time
import traceback
from collections.abc import Collection
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from grader.sandbox import bwrap, capabilities, landlock, namespaces, netlink, seccomp, usage
from grader.sandbox.limits import BoxLimits

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER = 1, 4, 36
STACKS_SIGNAL = signal.SIGUSR2
TRACE_SIGNAL = signal.SIGUSR1  # a rank that has not told everything it recorded is to do so
TICK_SECONDS = 0.05
CPU_NEWS_SECONDS = 0.1
EXACT_SECONDS = 0.2  # between two exact sums of memory, which take milliseconds a process
LAST_WORDS_SECONDS = 0.02  # for the stacks of a box that passed a limit
NOTE, STORE = 4, 5

HARMLESS = ("/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/sys/bus/pci", "/sys/class/net", "/sys/devices",
            "/etc/hosts", "/etc/nsswitch.conf", "/etc/passwd")  # fmt: skip

_filter = b""


@dataclass(frozen=True)
class Wanted:
    """A box to be made: how many ranks, what they may use, where their files are (unless "full"), and the mode."""

    ranks: int
    limits: BoxLimits
    scratch: str
    mode: str

    @property
    def full(self) -> bool:
        return self.mode == "full"


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def become_subreaper() -> None:
    """Orphans among our descendants come to us."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)


def prepare(full: bool) -> None:
    """Make once what every box needs. What only Landlock keeps apart must not change files' modes and owners."""
    global _filter
    _filter = seccomp.program(unix_sockets=False, metadata=full)


def refused(mode: str) -> str:
    """Why no box can be made in this mode; "" if it can. The process that asks is of no other use afterwards."""
    try:
        if mode == "full":
            namespaces.enter()
            netlink.loopback_up()
            pid = os.fork()
            if pid == 0:
                try:
                    namespaces.furnish(BoxLimits())
                    os._exit(0)
                except OSError:
                    os._exit(1)
            if os.waitpid(pid, 0)[1]:
                return "no mounts can be made in a box"
        if mode == "partial" and not landlock.abi():
            return "this kernel has no Landlock"
        if mode != "none":
            seccomp.install(seccomp.program(unix_sockets=False))
    except OSError as error:
        return str(error)
    return ""


def children() -> list[int]:
    """The process ids of this process's own children, as /proc has them."""
    try:
        with open("/proc/thread-self/children") as listing:
            return [int(pid) for pid in listing.read().split()]
    except OSError:
        folder, me = os.open("/proc", os.O_RDONLY), os.getpid()
        try:
            found = [usage.process(folder, pid) for pid in usage.pids(folder)]
        finally:
            os.close(folder)
        return [each.pid for each in found if each is not None and each.parent == me]


def end_descendants(known: Collection[int] | None = None) -> None:
    """Kill and reap every descendant, until there is none (orphans come to us: we are their subreaper).

    `known` are all children there can be, where orphans stay in namespaces of their own, and /proc may be another's.
    """
    while True:
        for pid in children() if known is None else known:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def keep(descriptors: list[int], wanted: Wanted, module: ModuleType) -> None:
    """In a fresh fork of the warm process: one box, from its first process to its last. Never returns."""
    first = 0
    try:
        become_subreaper()
        store = _room(wanted)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        first = os.fork()
        if first == 0:
            ours.close()
            os.close(descriptors[0])
            _First(theirs, descriptors[1:], wanted, module, store).live()
        theirs.close()
        for fd in descriptors[1:]:
            os.close(fd)
        if store is not None:
            store.close()
        _Keeper(socket.socket(fileno=descriptors[0]), ours, first, wanted).watch()
    except BaseException:
        traceback.print_exc()
    finally:
        end_descendants([first] if wanted.full and first else None)
        if wanted.scratch:
            shutil.rmtree(wanted.scratch, ignore_errors=True)
        os._exit(0)


def _room(wanted: Wanted) -> socket.socket | None:
    """Make the box's namespaces. Returns a listening socket in its network, where several ranks are to meet."""
    if wanted.full:
        namespaces.enter()
        netlink.loopback_up()
    if wanted.ranks == 1:
        return None
    store = socket.socket()
    store.bind(("127.0.0.1", 0))
    store.listen(wanted.ranks)
    return store


class _First:
    """The box's first process: forks the ranks, tells of their ends, reaps whatever else ends."""

    def __init__(
        self,
        keeper: socket.socket,
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
        """Never returns."""
        try:
            _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            become_subreaper()
            if self.wanted.full:
                namespaces.furnish(self.wanted.limits)
                os.chdir(namespaces.SCRATCH)
            else:
                os.chdir(self.wanted.scratch)
            woken, waker = socket.socketpair()
            woken.setblocking(False)
            waker.setblocking(False)
            signal.signal(signal.SIGCHLD, lambda *_: None)
            signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
            for number in range(self.wanted.ranks):
                os.mkdir(f"rank-{number}")
                pid = os.fork()
                if pid == 0:
                    signal.set_wakeup_fd(-1)
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    self._rank(number)
                self.ranks[pid] = number
            for fd in self.descriptors:
                os.close(fd)
            if self.store is not None:
                self.store.close()
            self._announce()
            if self.wanted.full:
                capabilities.drop_all()
                _prctl(PR_SET_DUMPABLE, 0)
            self._wait(woken)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)

    def _announce(self) -> None:
        """Tell the keeper who the ranks are, and give it this box's /proc."""
        folder = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY)
        socket.send_fds(self.keeper, [json.dumps({"pids": list(self.ranks)}).encode()], [folder])
        os.close(folder)

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
                elif not self.keeper.recv(64):
                    return
                else:
                    for pid in self.ranks:
                        with contextlib.suppress(ProcessLookupError):
                            os.kill(pid, TRACE_SIGNAL)
                            os.kill(pid, STACKS_SIGNAL)

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0] != 0:
                if ended[0] in self.ranks:
                    rank = self.ranks.pop(ended[0])
                    _send(self.keeper, {"rank": rank, "status": os.waitstatus_to_exitcode(ended[1])})

    def _rank(self, number: int) -> None:
        """In a fresh fork: become a rank. Never returns."""
        status = 70
        try:
            frames, out, err, note = self.descriptors[4 * number : 4 * number + 4]
            os.setsid()
            _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            port = self.store.getsockname()[1] if self.store is not None else 0
            last = NOTE
            if self.store is not None and number == 0:
                last = STORE
            wanted = [os.open(os.devnull, os.O_RDONLY), out, err, frames, note]
            if last == STORE and self.store is not None:
                wanted.append(self.store.fileno())
            spare = [os.dup(fd) for fd in wanted]  # none of them is then below 6, to be overwritten
            for target, fd in enumerate(spare):
                os.dup2(fd, target)
            os.closerange(last + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
            os.chdir(f"rank-{number}")
            _shut(self.wanted, os.getcwd())
            status = self.module.main(number, socket.socket(fileno=3), port)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)


def _shut(wanted: Wanted, folder: str) -> None:
    """Give up, in a rank, whatever its code is not to have. Nothing that is given up here can be had again."""
    os.environ.update(HOME=folder, TMPDIR=folder)
    tempfile.tempdir = None
    limits = wanted.limits
    most = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_NOFILE: limits.open_files,
        resource.RLIMIT_FSIZE: limits.file_bytes,
        resource.RLIMIT_CPU: limits.cpu_seconds,
        resource.RLIMIT_DATA: 2 * limits.memory_bytes,  # what is really used is the keeper's to watch
        resource.RLIMIT_MEMLOCK: 2**16,
    }
    if wanted.full:
        most[resource.RLIMIT_NPROC] = limits.processes  # elsewhere it would count all processes of the user
    for name, value in most.items():
        hard = resource.getrlimit(name)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(name, (value, value))
    if wanted.mode == "none":
        return
    if landlock.abi():
        alone = [namespaces.SCRATCH, namespaces.SHARED_MEMORY] if wanted.full and wanted.ranks == 1 else []
        # several ranks share nothing but the network: what they tell each other is counted there
        read = [*map(str, bwrap.readable()), *(("/proc", "/etc") if wanted.full else HARMLESS)]
        landlock.restrict(read=read, write=[folder, *alone, *bwrap.DEVICES, *map(str, bwrap.gpus())], execute=read)
    if wanted.full:
        capabilities.drop_all()
    seccomp.install(_filter)


class _Keeper:
    """Watches a box from outside, and ends it."""

    def __init__(self, boss: socket.socket, box: socket.socket, first: int, wanted: Wanted) -> None:
        self.boss, self.box, self.first, self.wanted = boss, box, first, wanted
        self.pids: list[int] = []  # of the ranks, as the box's /proc has them
        self.folder = -1
        self.cpu: list[float] = []
        self.told: tuple[float, list[float]] = (0.0, [])
        self.exact_at, self.exact_for = 0.0, 0

    def watch(self) -> None:
        """Until the box is to end, or has ended."""
        watch = selectors.DefaultSelector()
        watch.register(self.boss, selectors.EVENT_READ)
        watch.register(self.box, selectors.EVENT_READ)
        next_tick = time.monotonic() + TICK_SECONDS
        while True:
            for key, _ in watch.select(max(0.0, next_tick - time.monotonic())):
                going = self._boss_says() if key.fileobj is self.boss else self._box_says()
                if not going:
                    return
            if time.monotonic() >= next_tick:
                if self.folder >= 0 and not self._look():
                    return
                next_tick = time.monotonic() + TICK_SECONDS

    def _boss_says(self) -> bool:
        command = self.boss.recv(64)
        if command == b"stacks":
            with contextlib.suppress(OSError):
                self.box.send(b"stacks")
        elif command == b"traffic":
            _send(self.boss, self._traffic())
        else:
            return False
        return True

    def _box_says(self) -> bool:
        data, fds, _, _ = socket.recv_fds(self.box, 65536, 1)
        if not data:
            return False
        if fds:
            self.folder, self.pids = fds[0], json.loads(data)["pids"]
            self.cpu = [0.0] * len(self.pids)
            _send(self.boss, {"up": True})
        else:
            self._tell_cpu(self._processes(), at_once=True)
            _send(self.boss, json.loads(data))
        return True

    def _processes(self) -> list[usage.Process]:
        if self.wanted.full:
            found = [usage.process(self.folder, pid) for pid in usage.pids(self.folder)]
            return [each for each in found if each is not None]
        return usage.below(self.folder, os.getpid())

    def _look(self) -> bool:
        """Compare what the box uses with what it may use. False if the box was ended."""
        processes, limits = self._processes(), self.wanted.limits
        self._tell_cpu(processes)
        first = next((each.reaped_cpu_seconds for each in processes if each.parent in (0, os.getpid())), 0.0)
        used = {
            "processes": sum(each.threads for each in processes) - 1,
            "cpu": sum(each.cpu_seconds for each in processes) + first,
            "memory": self._memory(processes),
        }
        allowed = {"processes": limits.processes, "cpu": limits.cpu_seconds, "memory": limits.memory_bytes}
        for name in ("memory", "processes", "cpu"):
            if used[name] > allowed[name]:
                largest = max(self.pids, key=lambda pid: _private(processes, pid))
                with contextlib.suppress(OSError):
                    self.box.send(b"stacks")
                time.sleep(LAST_WORDS_SECONDS)
                os.kill(self.first, signal.SIGKILL)
                rank = self.pids.index(largest)
                _send(self.boss, {"limit": name, "used": used[name], "allowed": allowed[name], "rank": rank})
                return False
        return True

    def _memory(self, processes: list[usage.Process]) -> int:
        """Bytes: an upper bound that is cheap to have while it is below the limit, else the exact sum."""
        most = sum(each.memory_bytes for each in processes)
        if most <= self.wanted.limits.memory_bytes:
            return most
        now = time.monotonic()
        if now - self.exact_at < EXACT_SECONDS and most < 1.05 * self.exact_for:
            return 0
        self.exact_at, self.exact_for = now, most
        return usage.proportional_bytes(self.folder, [each.pid for each in processes])

    def _tell_cpu(self, processes: list[usage.Process], at_once: bool = False) -> None:
        by_pid = {each.pid: each for each in processes}
        for number, pid in enumerate(self.pids):
            if pid in by_pid:
                self.cpu[number] = by_pid[pid].cpu_seconds + by_pid[pid].reaped_cpu_seconds
        at, told = self.told
        if self.cpu != told and (at_once or time.monotonic() - at >= CPU_NEWS_SECONDS):
            self.told = time.monotonic(), list(self.cpu)
            _send(self.boss, {"cpu": self.cpu})

    def _traffic(self) -> dict[str, Any]:
        """What the kernel has counted in this box's network; nobody shares a network with it only in "full" mode."""
        if not self.wanted.full:
            return {"carried": None}
        with open("/proc/thread-self/net/dev") as counters:
            carried = netlink.loopback_bytes(counters.read())
        by_inode = {each.inode: each.bytes_received for each in netlink.sockets()}
        received = [sum(by_inode.get(inode, 0) for inode in usage.sockets(self.folder, pid)) for pid in self.pids]
        return {"carried": carried, "received": received}


def _private(processes: list[usage.Process], pid: int) -> int:
    return next((each.memory_bytes for each in processes if each.pid == pid), 0)


def _send(to: socket.socket, message: dict[str, Any]) -> None:
    with contextlib.suppress(OSError):
        to.send(json.dumps(message).encode())


if sys.platform != "linux":
    raise ImportError("rankup runs learners' code on Linux only")
