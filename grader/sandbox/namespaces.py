"""A room of its own for one box, made in a fork: user, process, network, IPC and host name namespaces, and mounts.

Bubblewrap has already shut the house: what is made here is a room in it, so that boxes do not see each other or the
warm process they were forked from, and all of a box is gone with its first process. Needs user namespaces within user
namespaces; raises OSError where the kernel refuses (see user_namespaces(7), pid_namespaces(7), mount_namespaces(7)).
"""

from __future__ import annotations

import ctypes
import os

from grader.sandbox.bwrap import SCRATCH
from grader.sandbox.limits import BoxLimits

NEWNS, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET = 0x20000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REC, MS_PRIVATE = 1, 2, 4, 8, 0x4000, 0x40000
SHARED_MEMORY = "/dev/shm"
INODES_OF_SHARED_MEMORY = 256

_libc = ctypes.CDLL(None, use_errno=True)


def enter(kinds: int = NEWPID | NEWNET | NEWIPC | NEWUTS) -> None:
    """Leave the namespaces of these kinds that others share; after NEWPID the next fork is process 1 of a new one.

    The caller has every capability in the new user namespace. It must have one thread only.
    """
    uid, gid = os.getuid(), os.getgid()
    _call("unshare", _libc.unshare(NEWUSER | kinds))
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


def furnish(limits: BoxLimits) -> None:
    """As process 1: mounts of its own, with /proc of this box alone, and scratch space that is empty and bounded."""
    _call("unshare", _libc.unshare(NEWNS))
    mount(None, "/", None, MS_REC | MS_PRIVATE)
    mount("proc", "/proc", "proc", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC)
    size = f"size={limits.disk_bytes},nr_inodes={limits.inodes},mode=0755"
    mount("tmpfs", SCRATCH, "tmpfs", MS_NOSUID | MS_NODEV, size)
    size = f"size={limits.disk_bytes},nr_inodes={INODES_OF_SHARED_MEMORY},mode=0755"
    mount("tmpfs", SHARED_MEMORY, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, size)


def mount(source: str | None, target: str, kind: str | None, flags: int, data: str = "") -> None:
    """mount(2). Raises OSError."""

    def text(value: str | None) -> bytes | None:
        return value.encode() if value else None

    _call(f"mount {target}", _libc.mount(text(source), text(target), text(kind), ctypes.c_ulong(flags), text(data)))


def _call(what: str, result: int) -> None:
    if result != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{what}: {os.strerror(error)}")
