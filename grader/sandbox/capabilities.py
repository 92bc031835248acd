"""Root's privileges in parts: giving all of them up, so that even uid 0 is an ordinary user, for good."""

from __future__ import annotations

import ctypes
import errno
import os
from typing import Any

_PR_CAPBSET_READ, _PR_CAPBSET_DROP, _PR_SET_SECUREBITS, _PR_SET_NO_NEW_PRIVS = 23, 24, 28, 38
_VERSION_3 = 0x20080522
# NOROOT, NO_SETUID_FIXUP, NO_CAP_AMBIENT_RAISE, each with its lock, and the lock of KEEP_CAPS, which stays off
_SECUREBITS = 0b11_10_11_11


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Sets(ctypes.Structure):
    _fields_ = (("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32))


def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)


def held() -> int:
    """The effective set of the calling thread, a bit for each capability, as the kernel tells it."""
    sets = (_Sets * 2)()
    if _libc().capget(ctypes.byref(_Header(_VERSION_3, 0)), sets) != 0:
        raise OSError(ctypes.get_errno(), "the kernel did not tell which capabilities this process has")
    return int(sets[0].effective) | int(sets[1].effective) << 32


def drop_all() -> None:
    """Empty every set of the calling thread; no later exec and no change of user brings anything back.

    Other threads keep theirs: call it before there are any. Without CAP_SETPCAP the bounding set and the secure bits
    stay as they are, and no_new_privs, which is then set, keeps an exec from gaining anything. OSError: refused.
    """
    libc = _libc()
    locked = libc.prctl(_PR_SET_SECUREBITS, _SECUREBITS, 0, 0, 0) == 0
    capability = 0
    while libc.prctl(_PR_CAPBSET_READ, capability, 0, 0, 0) >= 0:  # past the last one it fails
        if libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0) != 0:
            if ctypes.get_errno() != errno.EPERM:
                _refused("a capability could not be taken from the bounding set")
            locked = False
            break
        capability += 1
    if not locked and libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        _refused("no_new_privs was refused")
    # the ambient set never holds what the others lack, so it is emptied with them
    if libc.capset(ctypes.byref(_Header(_VERSION_3, 0)), (_Sets * 2)()) != 0:
        _refused("the capabilities of this process could not be given up")


def _refused(what: str) -> None:
    number = ctypes.get_errno()
    raise OSError(number, f"{what}: {os.strerror(number)}")
