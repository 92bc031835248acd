"""A box's keeper: it makes the box, watches from outside what is used in there, and ends all of it.

The keeper is forked from the warm process, for one box, and stays outside of it: it enters the box's user and network
namespaces, but none of its processes can see it. It forks the box's first process (see `first`), which forks the ranks
and tells how they end. Over its socket the keeper tells
  {"up": true}                                  the ranks have been forked
  {"rank": r, "status": s}                      a rank ended
  {"cpu": [seconds, ...], "delayed": [...]}     CPU time per rank, and for how long it was ready to run and no processor
                                                was free, when either has changed
  {"ready": bool}                               after "look": whether a rank runs, or is ready to
  {"limit": name, "used", "allowed", "rank"}    a limit of the whole box was passed, and the box has been ended
  {"carried": bytes, "received": [bytes, ...], "sent": [bytes, ...]}  after "traffic": what the box's loopback has
                                                carried, and what the sockets that each rank has open have received and
                                                sent; or {"carried": null}
and takes "stacks", "look", "traffic", "end R" (kill that rank) and "kill"; at the end of file it ends the box too. When
it is gone, so is every process of the box: they die with the first process of their namespace; in a box without one,
the keeper is the subreaper of those that detached themselves, and goes on until it has no child left.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import shutil
import socket
import time
from types import ModuleType
from typing import Any

from grader.sandbox import namespaces, netlink, packets, seccomp, usage
from grader.sandbox.first import First, Wanted, tell
from grader.sandbox.limits import BoxLimits
from grader.sandbox.supervise import become_subreaper, end_descendants, fork

TICK_SECONDS = 0.05
CPU_NEWS_SECONDS = 0.1
EXACT_SECONDS = 0.2  # between two exact sums of memory, which take milliseconds a process
LAST_WORDS_SECONDS = 0.5  # at most, for the stack of a rank whose box passed a limit
POLL_SECONDS = 0.005


def refused() -> str:
    """Why no full box can be made; "" if it can. The process that asks is of no other use afterwards."""
    try:
        namespaces.enter()
        netlink.loopback_up()
        if os.waitpid(fork(lambda: namespaces.furnish(BoxLimits())), 0)[1]:
            return "no mounts can be made in a box"
        seccomp.install(seccomp.program(unix_sockets=False))
    except OSError as error:
        return str(error)
    return ""


def keep(descriptors: list[int], wanted: Wanted, module: ModuleType) -> None:
    """In a fresh fork of the warm process: one box, from its first process to its last."""
    first = 0
    try:
        become_subreaper()
        store = _room(wanted)
        ours, theirs = packets.pair()

        def begin() -> None:
            ours.close()
            os.close(descriptors[0])
            First(theirs, descriptors[1:], wanted, module, store).live()

        first = fork(begin)
        theirs.close()
        notes = descriptors[4::4]  # descriptors[1:] are four for each rank, its note the last of them
        for fd in set(descriptors[1:]) - set(notes):
            os.close(fd)
        if store is not None:
            store.close()
        _Keeper(packets.of(descriptors[0]), ours, wanted, notes).watch()
    finally:
        end_descendants([first] if wanted.full and first else None)
        if wanted.scratch:
            shutil.rmtree(wanted.scratch, ignore_errors=True)


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


class _Keeper:
    """Watches a box from outside, and ends it."""

    def __init__(self, boss: packets.Packets, box: packets.Packets, wanted: Wanted, notes: list[int]) -> None:
        self.boss, self.box, self.wanted, self.notes = boss, box, wanted, notes
        self.pids: list[int] = []  # of the ranks, as the box's /proc has them
        self.folder = usage.NO_FOLDER
        self.cpu: list[float] = []
        self.delayed: list[float] = []
        self.told: tuple[float, list[float], list[float]] = (0.0, [], [])
        self.exact_at, self.exact_for = 0.0, 0
        self.much_too_much = 1.5 * wanted.limits.memory_bytes

    def watch(self) -> None:
        """Until the box is to end, or has ended."""
        watch = selectors.DefaultSelector()
        watch.register(self.boss, selectors.EVENT_READ)
        watch.register(self.box, selectors.EVENT_READ)
        next_tick = time.monotonic() + TICK_SECONDS
        while True:
            ready = {key.fileobj for key, _ in watch.select(max(0.0, next_tick - time.monotonic()))}
            # the box first: to answer the boss may take what made the box ready, and to take it again would block
            if (self.box in ready and not self._box_says()) or (self.boss in ready and not self._boss_says()):
                return
            if time.monotonic() >= next_tick:
                if self.pids and not self._look():
                    return
                next_tick = time.monotonic() + TICK_SECONDS

    def _boss_says(self) -> bool:
        command = self.boss.take()
        if command == b"stacks" or command.startswith(b"end "):
            with contextlib.suppress(OSError):
                self.box.put(command)
        elif command in (b"look", b"traffic"):
            while not self.pids:  # ranks may be ready, and asked about, before it was read here who they are
                if not self._box_says():
                    return False
            tell(self.boss, self._traffic() if command == b"traffic" else self._ready())
        else:
            return False
        return True

    def _box_says(self) -> bool:
        data, fds = self.box.take_with(1)
        if not data:
            return False
        told = json.loads(data)
        if "pids" in told:
            self.pids, self.folder = told["pids"], fds[0] if fds else usage.NO_FOLDER
            self.cpu, self.delayed = [0.0] * len(self.pids), [0.0] * len(self.pids)
            tell(self.boss, {"up": True})
        else:
            self._tell_cpu(self._processes(), at_once=True)
            tell(self.boss, told)
        return True

    def _processes(self) -> list[usage.Process]:
        return usage.everybody(self.folder) if self.wanted.full else usage.tree(self.folder, os.getpid())[1:]

    def _look(self) -> bool:
        """Compare what the box uses with what it may use. False if the box was ended."""
        processes, limits = self._processes(), self.wanted.limits
        self._tell_cpu(processes)
        own = {each.pid: usage.own_bytes(self.folder, each.pid) for each in processes}
        first = next((each.reaped_cpu_seconds for each in processes if each.parent in (0, os.getpid())), 0.0)
        used = {
            "processes": sum(each.threads for each in processes) - 1,
            "cpu": sum(each.cpu_seconds for each in processes) + first,
            "memory": self._memory(own),
        }
        allowed = {"processes": limits.processes, "cpu": limits.cpu_seconds, "memory": limits.memory_bytes}
        for name in ("memory", "processes", "cpu"):
            if used[name] > allowed[name]:
                rank = self.pids.index(max(self.pids, key=lambda pid: own.get(pid, 0)))
                self._last_words(rank)
                tell(self.boss, {"limit": name, "used": used[name], "allowed": allowed[name], "rank": rank})
                return False
        return True

    def _ready(self) -> dict[str, Any]:
        processes = self._processes()
        self._tell_cpu(processes, at_once=True)
        return {"ready": any(each.ready for each in processes if each.pid in self.pids)}

    def _last_words(self, rank: int) -> None:
        """Have the ranks write where they are, and wait until this one has, but not until the machine has no room."""
        before = words = os.lseek(self.notes[rank], 0, os.SEEK_CUR)
        with contextlib.suppress(OSError):
            self.box.put(b"stacks")
        until = time.monotonic() + LAST_WORDS_SECONDS
        while time.monotonic() < until and usage.own_bytes(self.folder, self.pids[rank]) < self.much_too_much:
            time.sleep(POLL_SECONDS)
            last, words = words, os.lseek(self.notes[rank], 0, os.SEEK_CUR)
            if before < last == words:
                return

    def _memory(self, own: dict[int, int]) -> int:
        """Bytes: an upper bound that is cheap to have while it is below the limit, else the exact sum."""
        most = sum(own.values())
        if most <= self.wanted.limits.memory_bytes:
            return most
        now = time.monotonic()
        if now - self.exact_at < EXACT_SECONDS and most < 1.05 * self.exact_for:
            return 0
        self.exact_at, self.exact_for = now, most
        exact = [usage.proportional_bytes(self.folder, pid) for pid in own]
        return sum(each[0] for each in exact if each)  # the box's first process is not to be read, nor large

    def _tell_cpu(self, processes: list[usage.Process], at_once: bool = False) -> None:
        at, *told = self.told
        if not at_once and time.monotonic() - at < CPU_NEWS_SECONDS:
            return
        by_pid = {each.pid: each for each in processes}
        for number, pid in enumerate(self.pids):
            if pid in by_pid:
                self.cpu[number] = by_pid[pid].cpu_seconds + by_pid[pid].reaped_cpu_seconds
                self.delayed[number] = usage.delayed_seconds(self.folder, pid)
        if [self.cpu, self.delayed] != told:
            self.told = time.monotonic(), list(self.cpu), list(self.delayed)
            tell(self.boss, {"cpu": self.cpu, "delayed": self.delayed})

    def _traffic(self) -> dict[str, Any]:
        """What the kernel has counted in this box's network; nobody shares a network with it only in "full" mode."""
        if not self.wanted.full:
            return {"carried": None}
        with open("/proc/thread-self/net/dev") as counters:
            carried = netlink.loopback_bytes(counters.read())
        by_inode = {each.inode: each for each in netlink.sockets()}
        owned = [[by_inode[i] for i in usage.sockets(self.folder, pid) if i in by_inode] for pid in self.pids]
        received = [sum(each.bytes_received for each in mine) for mine in owned]
        return {
            "carried": carried,
            "received": received,
            "sent": [sum(each.bytes_sent for each in mine) for mine in owned],
        }
