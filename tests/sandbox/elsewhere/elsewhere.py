"""Makes this Python one as on a Mac, as far as that can be done: what only Linux has is gone, or raises.

psutil alone goes on reading /proc: there it has its own ways. To be imported by `site`, before anything else.
"""

import ctypes
import errno
import fcntl
import os
import platform
import resource
import select
import signal
import socket
import subprocess  # noqa: F401 - as it is on Linux: it reads sys.platform
import sys
import sysconfig
import time
import types

import psutil  # noqa: F401 - as it is on Linux

GONE = {
    fcntl: ("F_ADD_SEALS", "F_GET_SEALS", "F_SETPIPE_SZ", "F_GETPIPE_SZ"),
    os: ("memfd_create", "pidfd_open", "pipe2", "eventfd", "splice", "copy_file_range", "getresuid", "getresgid",
         "setresuid", "setresgid", "posix_fadvise", "posix_fallocate", "getrandom", "waitid", "O_PATH", "O_TMPFILE",
         "unshare", "setns", "setxattr", "getxattr", "listxattr", "removexattr"),
    resource: ("RUSAGE_THREAD", "prlimit", "RLIMIT_NICE", "RLIMIT_SIGPENDING", "RLIMIT_MSGQUEUE"),
    select: ("epoll",),
    signal: ("pidfd_send_signal", "sigtimedwait", "sigwaitinfo", "SIGPWR", "SIGSTKFLT"),
    socket: ("SO_PEERCRED", "AF_NETLINK", "AF_PACKET", "SOCK_CLOEXEC", "SOCK_NONBLOCK", "SCM_CREDENTIALS", "AF_VSOCK"),
    time: ("CLOCK_BOOTTIME", "pthread_getcpuclockid"),
}  # fmt: skip
CALLS = {"prctl", "syscall", "unshare", "setns", "mount", "capget", "capset", "seccomp_load", "pidfd_open", "clone"}
PLACES = ("/proc", "/sys", "/dev/shm")

for module, names in GONE.items():
    for name in names:
        vars(module).pop(name, None)
for name in [name for name in vars(os) if name.startswith(("sched_", "SCHED_"))]:
    delattr(os, name)

_find = ctypes.CDLL.__getattr__


def _found(library: ctypes.CDLL, name: str) -> object:
    if name in CALLS:
        raise AttributeError(f"dlsym(RTLD_DEFAULT, {name}): symbol not found")
    return _find(library, name)


def _watch(event: str, arguments: tuple[object, ...]) -> None:
    """Files that are not there, and sockets of kinds that there are none of."""
    if event in ("open", "os.listdir", "os.scandir") and isinstance(arguments[0], str | bytes):
        path = os.fsdecode(arguments[0])
        if path.startswith(PLACES) and not _by_psutil():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    elif event == "socket.bind" and isinstance(arguments[1], str | bytes) and arguments[1][:1] in ("\0", b"\0"):
        raise FileNotFoundError(errno.ENOENT, "no abstract sockets")


def _by_psutil() -> bool:
    frame = sys._getframe(2)
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith("psutil"):
            return True
        frame = frame.f_back
    return False


_pair = socket.socketpair


def _socketpair(family: int | None = None, kind: int = socket.SOCK_STREAM, proto: int = 0) -> object:
    if kind == socket.SOCK_SEQPACKET:
        raise OSError(errno.EPROTONOSUPPORT, os.strerror(errno.EPROTONOSUPPORT))
    return _pair(family, kind, proto)


ctypes.CDLL.__getattr__ = _found
socket.socketpair = _socketpair
sys.modules["_scproxy"] = types.ModuleType("_scproxy")  # how urllib asks a Mac for its proxies
vars(sys.modules["_scproxy"]).update(_get_proxy_settings=dict, _get_proxies=dict)
platform.mac_ver = lambda: ("10.8", ("", "", ""), "x86_64")  # before there was what ipykernel switches off
sysconfig.get_config_vars()  # from a file whose name says which platform this is
sys.addaudithook(_watch)
sys.platform = "darwin"
