"""Files a process may touch, kept by the kernel without any privilege: the walls between the processes of one box.

Each process that restricts itself gets a domain of its own: it cannot trace, open the memory of, or signal any process
that is not in that domain or below it. What Landlock does not keep: looking at names and sizes (stat), changing modes,
owners and times, and connecting to unix sockets that have a path.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct
from collections.abc import Sequence
from typing import Any

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same on every architecture
_VERSION, _PATH_BENEATH = 1, 1
_PR_SET_NO_NEW_PRIVS = 38

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = (1 << bit for bit in range(4))
_REMOVE = 1 << 4 | 1 << 5
_MAKE = 1 << 7 | 1 << 8 | 1 << 9 | 1 << 10 | 1 << 12  # folders, files, sockets, pipes, links; 6 and 11 are devices
_REFER, _TRUNCATE, _IOCTL_DEVICE = 1 << 13, 1 << 14, 1 << 15
_READ = _READ_FILE | _READ_DIR | _EXECUTE
_WRITE = _READ_FILE | _READ_DIR | _WRITE_FILE | _REMOVE | _MAKE | _REFER | _TRUNCATE | _IOCTL_DEVICE
_ON_A_FILE = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEVICE
_ABSTRACT_SOCKETS, _SIGNALS = 1, 2

# what each version of the interface added, to the rights and to the scopes
_FIRST = (1 << 13) - 1
_ADDED_RIGHTS = {2: _REFER, 3: _TRUNCATE, 5: _IOCTL_DEVICE}
_SCOPES_SINCE = 6


def _libc() -> Any:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    return libc


def abi() -> int:
    """The version of the interface that the running kernel has; 0 where it has none, or it is switched off."""
    return max(0, int(_libc().syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _VERSION)))


def restrict(read: Sequence[str], write: Sequence[str]) -> None:
    """From now on this process and its children reach these files only, for good. Files already open stay open.

    Below `read`: reading and executing. Below `write`: reading, writing, creating and removing, but no device files and
    no executing. A path that is a file stands for itself; one that does not exist, or that this user cannot get to, is
    left out. Where the kernel can (version 6): no signals to, and no abstract unix sockets of, processes outside. Sets
    no_new_privs. Holds for the calling thread and what it starts: let there be no other. OSError: the kernel has no
    Landlock, or refuses.
    """
    version = abi()
    if version == 0:
        raise OSError(errno.ENOSYS, "this kernel has no Landlock: files cannot be kept from a process without it")
    handled = _FIRST
    for since, rights in _ADDED_RIGHTS.items():
        handled |= rights if version >= since else 0
    attributes = struct.pack("=QQ", handled, 0)
    if version >= _SCOPES_SINCE:
        attributes += struct.pack("=Q", _ABSTRACT_SOCKETS | _SIGNALS)
    libc = _libc()
    rules = int(libc.syscall(_CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), 0))
    if rules < 0:
        _refused("the kernel made no Landlock rules")
    try:
        for paths, rights in ((read, _READ), (write, _WRITE)):
            for path in paths:
                _allow(libc, rules, path, rights & handled)
        if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
            _refused("no_new_privs was refused")
        if libc.syscall(_RESTRICT_SELF, rules, 0) != 0:
            _refused("the kernel did not put this process under its Landlock rules")
    finally:
        os.close(rules)


def _allow(libc: Any, rules: int, path: str, rights: int) -> None:
    try:
        where = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return
    try:
        if not stat.S_ISDIR(os.fstat(where).st_mode):
            rights &= _ON_A_FILE
        if libc.syscall(_ADD_RULE, rules, _PATH_BENEATH, struct.pack("=Qi", rights, where), 0) != 0:
            _refused(f"Landlock took no rule for {path}")
    finally:
        os.close(where)


def _refused(what: str) -> None:
    number = ctypes.get_errno()
    raise OSError(number, f"{what}: {os.strerror(number)}")
