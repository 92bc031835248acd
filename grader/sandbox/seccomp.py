"""System calls that code in the box may not make: a filter for the kernel, assembled here, without a library.

`program` gives the bytes of `struct sock_filter` records, for `install` or for `bwrap --seccomp FD`. A filter only ever
looks at numbers: what a pointer points to is out of its reach, so calls that hide their flags in memory (clone3,
io_uring) do not exist in the box, and programs fall back to those whose flags can be read.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import socket
import struct
from collections.abc import Sequence
from functools import cache

Block = list[bytes]  # instructions; a block that is jumped into always ends in a return

_INSTRUCTION = struct.Struct("=HBBI")
_LOAD, _AND, _EQUAL, _GREATER, _ANY_BIT, _RETURN = 0x20, 0x54, 0x15, 0x25, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16  # offsets in struct seccomp_data
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_ALL_BITS = 0xFFFFFFFF

# AUDIT_ARCH_*, the number of seccomp(2), and the column of `_CALLS`
_MACHINES = {"x86_64": (0xC000003E, 317, 0), "aarch64": (0xC00000B7, 277, 1)}
# The newest call that was looked at. All above are unknown to this list and do not exist in the box: on x86_64 these
# are also the x32 calls, by their bit 30 and by the numbers from 512 on that old kernels took without it.
_NEWEST = 469

# name: number on x86_64, number on aarch64 (-1: none)
_CALLS: dict[str, tuple[int, int]] = {
    "acct": (163, 89), "add_key": (248, 217), "adjtimex": (159, 171), "bpf": (321, 280), "chroot": (161, 51),
    "clock_adjtime": (305, 266), "clock_settime": (227, 112), "clone": (56, 220), "clone3": (435, 435),
    "delete_module": (176, 106), "fanotify_init": (300, 262), "finit_module": (313, 273), "fremovexattr": (199, 16),
    "fsconfig": (431, 431), "fsetxattr": (190, 7), "fsmount": (432, 432), "fsopen": (430, 430), "fspick": (433, 433),
    "init_module": (175, 105), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425), "ioctl": (16, 29), "ioperm": (173, -1), "iopl": (172, -1), "kcmp": (312, 272),
    "kexec_file_load": (320, 294), "kexec_load": (246, 104), "keyctl": (250, 219), "lremovexattr": (198, 15),
    "lsetxattr": (189, 6), "memfd_create": (319, 279), "memfd_secret": (447, 447), "modify_ldt": (154, -1),
    "mount": (165, 40), "mount_setattr": (442, 442), "move_mount": (429, 429), "mq_open": (240, 180),
    "mq_unlink": (241, 181), "msgctl": (71, 187), "msgget": (68, 186), "msgrcv": (70, 188), "msgsnd": (69, 189),
    "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265), "open_tree": (428, 428),
    "open_tree_attr": (467, 467), "perf_event_open": (298, 241), "personality": (135, 92), "pidfd_getfd": (438, 438),
    "pivot_root": (155, 41), "prctl": (157, 167), "prlimit64": (302, 261), "process_madvise": (440, 440),
    "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "ptrace": (101, 117), "quotactl": (179, 60),
    "quotactl_fd": (443, 443), "reboot": (169, 142), "removexattr": (197, 14), "removexattrat": (466, 466),
    "request_key": (249, 218), "semctl": (66, 191), "semget": (64, 190), "semop": (65, 193), "semtimedop": (220, 192),
    "setdomainname": (171, 162), "sethostname": (170, 161), "setns": (308, 268), "settimeofday": (164, 170),
    "setxattr": (188, 5), "setxattrat": (463, 463), "shmat": (30, 196), "shmctl": (31, 195), "shmget": (29, 194),
    "socket": (41, 198), "socketpair": (53, 199), "swapoff": (168, 225), "swapon": (167, 224), "syslog": (103, 116),
    "umount2": (166, 39), "unshare": (272, 97), "uselib": (134, -1), "userfaultfd": (323, 282), "vhangup": (153, 58),
}  # fmt: skip
# Programs take ENOSYS for "an old kernel" and fall back. A memfd is memory that the watchdog does not see.
_ABSENT = ("clone3", "io_uring_enter", "io_uring_register", "io_uring_setup", "memfd_create", "memfd_secret")
# Allowed, unless `refusing` is asked to; Landlock lets them through also where a file may only be read.
ATTRIBUTES = ("setxattr", "lsetxattr", "fsetxattr", "setxattrat", "removexattr", "lremovexattr", "fremovexattr",
              "removexattrat")  # fmt: skip

_CLONE_PARENT, _CLONE_NEW = 0x8000, 0x7E020000
_PR_SET_DUMPABLE, _PR_SET_PTRACER, _PR_SET_CHILD_SUBREAPER = 4, 0x59616D61, 36
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_TYPE_MASK = 0xF  # of a socket's type; above are SOCK_NONBLOCK and SOCK_CLOEXEC
_AF_NETLINK, _NETLINK_ROUTE = 16, 0

_PR_SET_NO_NEW_PRIVS, _SET_MODE_FILTER, _FLAG_TSYNC = 38, 1, 1


def _op(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
    return _INSTRUCTION.pack(code, yes, no, value)


def _low(argument: int) -> bytes:
    """Load the low 32 bits of an argument: all the kernel looks at where its parameter is an int."""
    return _op(_LOAD, _ARGUMENTS + 8 * argument)


def _high(argument: int) -> bytes:
    return _op(_LOAD, _ARGUMENTS + 8 * argument + 4)


def _when(value: int, block: Block) -> Block:
    return [_op(_EQUAL, value, 0, len(block)), *block]


def _when_any_bit(mask: int, block: Block) -> Block:
    return [_op(_ANY_BIT, mask, 0, len(block)), *block]


def _fail(number: int) -> Block:
    return [_op(_RETURN, _ERRNO | number)]


_PASS: Block = [_op(_RETURN, _ALLOW)]


def _refuse_values(values: tuple[int, ...], argument: int) -> Block:
    refused = [step for value in values for step in _when(value, _fail(errno.EPERM))]
    return [_low(argument), *refused, *_PASS]


def _socket(unix_sockets: bool) -> Block:
    none = _fail(errno.EPROTONOSUPPORT)
    stream = [_low(2), *_when(0, _PASS), *_when(socket.IPPROTO_TCP, _PASS), *none]
    datagram = [_low(2), *_when(0, _PASS), *_when(socket.IPPROTO_UDP, _PASS), *none]
    internet = [_low(1), _op(_AND, _TYPE_MASK), *_when(socket.SOCK_STREAM, stream)]
    internet += [*_when(socket.SOCK_DGRAM, datagram), *_fail(errno.EAFNOSUPPORT)]
    block = [_low(0), *_when(socket.AF_INET, internet), *_when(socket.AF_INET6, internet)]
    if unix_sockets:
        block += _when(socket.AF_UNIX, _PASS)
    block += _when(_AF_NETLINK, [_low(2), *_when(_NETLINK_ROUTE, _PASS), *none])  # getifaddrs
    return [*block, *_fail(errno.EAFNOSUPPORT)]


def _socketpair(unix_sockets: bool) -> Block:
    """Pairs of connected sockets; but one of datagrams can turn to any other address, so it counts as an open one."""
    kinds = [_low(1), _op(_AND, _TYPE_MASK), *_when(socket.SOCK_STREAM, _PASS), *_when(socket.SOCK_SEQPACKET, _PASS)]
    pair = _PASS if unix_sockets else [*kinds, *_fail(errno.EAFNOSUPPORT)]
    return [_low(0), *_when(socket.AF_UNIX, pair), *_fail(errno.EAFNOSUPPORT)]


def _prlimit() -> Block:
    """One's own limits, and reading another's: a rank that may set its keeper's processor time can end it."""
    other = [_low(2), *_when_any_bit(_ALL_BITS, _fail(errno.EPERM))]
    other += [_high(2), *_when_any_bit(_ALL_BITS, _fail(errno.EPERM))]
    return [_low(0), *_when(0, _PASS), *other, *_PASS]


@cache
def program(*, unix_sockets: bool, machine: str = "") -> bytes:
    """The filter, as `struct sock_filter` records.

    `unix_sockets`: AF_UNIX sockets may be opened (connected pairs always may). `machine` is as `platform.machine()`
    tells it, by default this one. OSError: an unknown one.
    """
    machine = machine or platform.machine()
    if machine not in _MACHINES:
        raise OSError(errno.ENOSYS, f"no filter for system calls is known for this kind of processor: {machine}")
    architecture, _, column = _MACHINES[machine]
    looked_into = {
        "ioctl": _refuse_values((_TIOCSTI, _TIOCLINUX), 1),
        "prctl": _refuse_values((_PR_SET_DUMPABLE, _PR_SET_PTRACER, _PR_SET_CHILD_SUBREAPER), 0),
        "clone": [_low(0), *_when_any_bit(_CLONE_NEW | _CLONE_PARENT, _fail(errno.EPERM)), *_PASS],
        "socket": _socket(unix_sockets),
        "socketpair": _socketpair(unix_sockets),
        "prlimit64": _prlimit(),
        "personality": [_low(0), *_when(0, _PASS), *_when(_ALL_BITS, _PASS), *_fail(errno.EPERM)],
    }
    steps = [_op(_LOAD, _ARCHITECTURE), _op(_EQUAL, architecture, 1, 0), _op(_RETURN, _KILL)]
    steps += [_op(_LOAD, _NUMBER), _op(_GREATER, _NEWEST, 0, 1), *_fail(errno.ENOSYS)]
    for name, block in looked_into.items():  # first: for all others the kernel keeps a table of what is always allowed
        steps += _when(_CALLS[name][column], block)
    for name, numbers in _CALLS.items():
        if name in looked_into or numbers[column] < 0 or name in ATTRIBUTES:
            continue
        steps += _when(numbers[column], _fail(errno.ENOSYS if name in _ABSENT else errno.EPERM))
    return b"".join([*steps, *_PASS])


def refusing(names: Sequence[str]) -> bytes:
    """A filter that refuses these calls, of those that `program` knows, with EPERM, and lets through all others."""
    column = _MACHINES[platform.machine()][2]
    numbers = [number for name in names if (number := _CALLS[name][column]) >= 0]
    refused = [step for number in numbers for step in _when(number, _fail(errno.EPERM))]
    return b"".join([_op(_LOAD, _NUMBER), *refused, *_PASS])


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def install(program: bytes) -> None:
    """Put this process with all its threads, and all its children, under the filter, for good.

    Also sets no_new_privs, without which an ordinary user may not. OSError: the kernel refused; nothing has changed but
    no_new_privs.
    """
    machine = platform.machine()
    if machine not in _MACHINES:
        raise OSError(errno.ENOSYS, f"no filter for system calls is known for this kind of processor: {machine}")
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"no_new_privs was refused: {os.strerror(ctypes.get_errno())}")
    records = _Program(len(program) // _INSTRUCTION.size, program)
    result = libc.syscall(_MACHINES[machine][1], _SET_MODE_FILTER, _FLAG_TSYNC, ctypes.byref(records))
    if result > 0:
        raise OSError(errno.ESRCH, f"thread {result} has a filter of its own: nothing was installed")
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"the kernel refused the filter for system calls: {os.strerror(number)}")
