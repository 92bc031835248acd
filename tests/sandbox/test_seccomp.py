"""The filter as a table, run in a small interpreter for both kinds of processor, and for real in forked children."""

from __future__ import annotations

import asyncio
import ctypes
import errno
import fcntl
import mmap
import multiprocessing.popen_fork
import multiprocessing.queues
import multiprocessing.synchronize  # all of it before a child runs as a user who may not read this Python
import os
import platform
import re
import resource
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from forked import error_of, in_child, status, users

from grader.sandbox import seccomp

X86, ARM = "x86_64", "aarch64"
ARCHITECTURES = {X86: 0xC000003E, ARM: 0xC00000B7}
HARMLESS = {  # what every program does
    X86: {"read": 0, "mmap": 9, "fork": 57, "vfork": 58, "execve": 59, "kill": 62, "futex": 202, "openat": 257},
    ARM: {"read": 63, "mmap": 222, "execve": 221, "kill": 129, "futex": 98, "openat": 56, "setpriority": 140},
}
ALLOW, KILL = "allow", "kill"
HIGH = 1 << 32
Wanted = str | int

STREAM, DGRAM, RAW, SEQPACKET = socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_SEQPACKET
INET, INET6, UNIX, PACKET, NETLINK, VSOCK = socket.AF_INET, socket.AF_INET6, socket.AF_UNIX, 17, 16, 40
NO_FAMILY, NO_PROTOCOL = errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT


def run(
    program: bytes, number: int, arguments: Sequence[int] = (), machine: str = X86, architecture: int = 0
) -> Wanted:
    """What the kernel would do: classic BPF over struct seccomp_data."""
    padded = [argument % 2**64 for argument in (*arguments, 0, 0, 0, 0, 0, 0)][:6]
    data = struct.pack("<IIQ6Q", number % 2**32, architecture or ARCHITECTURES[machine], 0, *padded)
    steps = list(struct.iter_unpack("<HBBI", program))
    accumulator = at = 0
    while True:
        code, yes, no, value = steps[at]
        at += 1
        match code:
            case 0x20:
                accumulator = struct.unpack_from("<I", data, value)[0]
            case 0x54:
                accumulator &= value
            case 0x15:
                at += yes if accumulator == value else no
            case 0x25:
                at += yes if accumulator > value else no
            case 0x45:
                at += yes if accumulator & value else no
            case 0x06:
                return _action(value)
            case _:
                raise AssertionError(f"instruction {code:#x}")


def _action(value: int) -> Wanted:
    if value >> 16 == 0x0005:
        return value & 0xFFFF
    return {0x7FFF0000: ALLOW, 0x80000000: KILL}[value]


def number_of(name: str, machine: str) -> int:
    return seccomp._CALLS[name][0 if machine == X86 else 1]


STRICT = {"unix_sockets": False}
OPEN = {"unix_sockets": True}
CALLS: list[tuple[str, tuple[int, ...], dict[str, bool], Wanted]] = [
    ("clone", (0x3D0F00,), STRICT, ALLOW),  # pthread_create
    ("clone", (0x1200011,), STRICT, ALLOW),  # fork
    ("clone", (0x4111,), STRICT, ALLOW),  # posix_spawn
    ("clone", (HIGH | 17,), STRICT, ALLOW),
    *(("clone", (1 << bit | 17,), STRICT, errno.EPERM) for bit in (15, 17, 25, 26, 27, 28, 29, 30)),
    ("prctl", (15,), STRICT, ALLOW),  # PR_SET_NAME
    ("prctl", (4, 0), STRICT, errno.EPERM),
    ("prctl", (HIGH | 4, 0), STRICT, errno.EPERM),
    ("prctl", (0x59616D61, -1), STRICT, errno.EPERM),
    ("prctl", (36, 1), STRICT, errno.EPERM),
    ("ioctl", (0, 0x5401), STRICT, ALLOW),  # TCGETS
    ("ioctl", (0, 0x5412), STRICT, errno.EPERM),
    ("ioctl", (0, HIGH | 0x5412), STRICT, errno.EPERM),
    ("ioctl", (0, 0x541C), STRICT, errno.EPERM),
    ("ioctl", (3, 0x40086602), STRICT, ALLOW),
    ("personality", (0,), STRICT, ALLOW),
    ("personality", (0xFFFFFFFF,), STRICT, ALLOW),
    ("personality", (-1,), STRICT, ALLOW),
    ("personality", (0x0040000,), STRICT, errno.EPERM),
    ("prlimit64", (0, 7, 1, 1), STRICT, ALLOW),
    ("prlimit64", (1, 7, 0, 1), STRICT, ALLOW),
    ("prlimit64", (1, 7, 1, 0), STRICT, errno.EPERM),
    ("prlimit64", (1, 7, HIGH, 0), STRICT, errno.EPERM),
    ("prlimit64", (HIGH, 7, 1, 0), STRICT, ALLOW),  # a pid is an int: this is 0
    ("socket", (INET, STREAM, 0), STRICT, ALLOW),
    ("socket", (INET, STREAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK, 6), STRICT, ALLOW),
    ("socket", (INET6, DGRAM, 17), STRICT, ALLOW),
    ("socket", (HIGH | INET, HIGH | STREAM, HIGH), STRICT, ALLOW),
    ("socket", (INET, STREAM, 262), STRICT, NO_PROTOCOL),  # multipath TCP
    ("socket", (INET, STREAM, 132), STRICT, NO_PROTOCOL),
    ("socket", (INET, DGRAM, 1), STRICT, NO_PROTOCOL),
    ("socket", (INET, RAW, 1), STRICT, NO_FAMILY),
    ("socket", (INET, SEQPACKET, 132), STRICT, NO_FAMILY),
    ("socket", (NETLINK, RAW | socket.SOCK_CLOEXEC, 0), STRICT, ALLOW),
    ("socket", (NETLINK, RAW, 4), STRICT, NO_PROTOCOL),
    *(("socket", (family, RAW, 0), OPEN, NO_FAMILY) for family in (0, 3, PACKET, 31, 38, VSOCK, 44, 0xFFFFFFFF)),
    *(("socket", (UNIX, kind, 0), STRICT, NO_FAMILY) for kind in (STREAM, DGRAM, SEQPACKET)),
    *(("socket", (UNIX, kind, 0), OPEN, ALLOW) for kind in (STREAM, DGRAM, SEQPACKET)),
    ("socketpair", (UNIX, STREAM | socket.SOCK_CLOEXEC, 0), STRICT, ALLOW),
    ("socketpair", (UNIX, SEQPACKET, 0), STRICT, ALLOW),
    ("socketpair", (UNIX, DGRAM, 0), STRICT, NO_FAMILY),
    ("socketpair", (UNIX, RAW, 0), STRICT, NO_FAMILY),  # becomes one of datagrams
    ("socketpair", (UNIX, DGRAM, 0), OPEN, ALLOW),
    ("socketpair", (30, DGRAM, 0), OPEN, NO_FAMILY),
    ("clone3", (), OPEN, errno.ENOSYS),
    ("memfd_create", (), OPEN, errno.ENOSYS),
    ("io_uring_setup", (), OPEN, errno.ENOSYS),
    *((name, (), OPEN, ALLOW) for name in seccomp.ATTRIBUTES),
]
LOOKED_INTO = {name for name, _, _, _ in CALLS}
ON_MACHINES = [(name, machine) for name in seccomp._CALLS for machine in (X86, ARM) if number_of(name, machine) >= 0]


@pytest.mark.parametrize(
    ("name", "arguments", "options", "wanted", "machine"),
    [(*call, machine) for call in CALLS for machine in (X86, ARM) if (call[0], machine) in ON_MACHINES],
)
def test_a_call_that_is_looked_into(
    name: str, arguments: tuple[int, ...], options: dict[str, bool], wanted: Wanted, machine: str
) -> None:
    program = seccomp.program(**options, machine=machine)
    assert run(program, number_of(name, machine), arguments, machine) == wanted


@pytest.mark.parametrize(("name", "machine"), [pair for pair in ON_MACHINES if pair[0] not in LOOKED_INTO])
def test_a_call_that_is_never_made(name: str, machine: str) -> None:
    wanted = errno.ENOSYS if name in seccomp._ABSENT else errno.EPERM
    program = seccomp.program(unix_sockets=True, machine=machine)
    assert run(program, number_of(name, machine), (), machine) == wanted


@pytest.mark.parametrize("machine", [X86, ARM])
def test_only_what_is_listed_is_refused(machine: str) -> None:
    program = seccomp.program(unix_sockets=True, machine=machine)
    column = 0 if machine == X86 else 1
    listed = {numbers[column] for numbers in seccomp._CALLS.values()}
    refused = {number for number in range(470) if run(program, number, (), machine) != ALLOW}
    assert refused <= listed
    assert not refused & set(HARMLESS[machine].values())
    assert len(listed) == sum(numbers[column] >= 0 for numbers in seccomp._CALLS.values()) + (column == 1)


@pytest.mark.parametrize("machine", [X86, ARM])
@pytest.mark.parametrize("number", [470, 512, 521, 547, 0x40000000, 0x40000000 + 101, 0xFFFFFFFF])
def test_unknown_and_x32_numbers_do_not_exist(number: int, machine: str) -> None:
    assert run(seccomp.program(unix_sockets=True, machine=machine), number, (), machine) == errno.ENOSYS


@pytest.mark.parametrize("machine", [X86, ARM])
@pytest.mark.parametrize("architecture", [0x40000003, 0x40000028, 1])  # i386, 32-bit ARM, none
def test_another_architecture_is_the_end(architecture: int, machine: str) -> None:
    assert run(seccomp.program(unix_sockets=True, machine=machine), 0, (), machine, architecture) == KILL


def test_an_unknown_processor_is_refused_with_its_name() -> None:
    with pytest.raises(OSError, match="riscv64"):
        seccomp.program(unix_sockets=True, machine="riscv64")


@pytest.mark.parametrize(
    ("machine", "header"), [(X86, "x86_64-linux-gnu/asm/unistd_64.h"), (ARM, "asm-generic/unistd.h")]
)
def test_the_numbers_are_those_of_the_kernels_headers(machine: str, header: str) -> None:
    path = Path("/usr/include", header)
    if not path.exists():
        pytest.skip("the kernel's headers for this kind of processor are not installed")
    theirs = {name: int(number) for name, number in re.findall(r"#define __NR_(\w+) (\d+)\n", path.read_text())}
    ours = {name: number_of(name, machine) for name in seccomp._CALLS.keys() & theirs.keys()}
    assert len(ours) > 70
    assert ours == {name: theirs[name] for name in ours}


# for real

here = pytest.mark.skipif(platform.machine() not in ARCHITECTURES, reason="no filter for this kind of processor")


def syscall(name: str, *arguments: int | bytes | None) -> int:
    """The errno of a raw call; 0: it was made."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    numbers = (ctypes.c_long(value) if isinstance(value, int) else value for value in arguments)
    result = libc.syscall(number_of(name, platform.machine()), *numbers)
    return ctypes.get_errno() if result < 0 else 0


def under(do: Callable[[], object], uid: int | None = None, **options: bool) -> object:
    """What a child says that installed the filter first."""

    def first() -> object:
        seccomp.install(seccomp.program(**({"unix_sockets": False} | options)))
        return do()

    return in_child(first, uid)


REAL: list[tuple[str, tuple[int, ...], int]] = [
    ("ptrace", (0,), errno.EPERM),
    ("unshare", (0,), errno.EPERM),
    ("setns", (-1, 0), errno.EPERM),
    ("chroot", (0,), errno.EPERM),
    ("keyctl", (0, -3), errno.EPERM),
    ("bpf", (0,), errno.EPERM),
    ("shmget", (0, 4096, 0o1600), errno.EPERM),
    ("msgget", (0, 0o1600), errno.EPERM),
    ("process_vm_readv", (1,), errno.EPERM),
    ("clone", (0x10000011,), errno.EPERM),
    ("clone", (HIGH | 0x10000011,), errno.EPERM),
    ("clone3", (0, 0), errno.ENOSYS),
    ("memfd_create", (0, 0), errno.ENOSYS),
    ("io_uring_setup", (1, 0), errno.ENOSYS),
    ("socket", (PACKET, RAW, 0), NO_FAMILY),
    ("socket", (UNIX, STREAM, 0), NO_FAMILY),
    ("socket", (INET, STREAM, 262), NO_PROTOCOL),
    ("socket", (INET, STREAM, 0), 0),
    ("socketpair", (UNIX, DGRAM, 0, 0), NO_FAMILY),
    ("prctl", (4, 0), errno.EPERM),
    ("prctl", (HIGH | 4, 0), errno.EPERM),
    ("prctl", (36, 1), errno.EPERM),
    ("personality", (0xFFFFFFFF,), 0),
    ("personality", (0x40000,), errno.EPERM),
    ("ioctl", (0, HIGH | 0x5412, 0), errno.EPERM),
]


@here
@pytest.mark.parametrize("uid", users())
@pytest.mark.parametrize(("name", "arguments", "wanted"), REAL)
def test_the_kernel_says_so_too(name: str, arguments: tuple[int, ...], wanted: int, uid: int | None) -> None:
    assert under(lambda: syscall(name, *arguments), uid) == wanted


@here
def test_an_i386_call_ends_the_process() -> None:
    if platform.machine() != X86:
        pytest.skip("only x86_64 processors run these")
    code = bytes.fromhex("b814000000cd80c3")  # mov eax, 20 (getpid); int 0x80; ret

    def call() -> None:
        page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        page.write(code)
        seccomp.install(seccomp.program(unix_sockets=False))
        ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()

    assert status(call) == -signal.SIGSYS


@here
def test_a_keepers_limits_are_its_own() -> None:
    keeper = os.getpid()

    def set_and_read() -> tuple[int, int, tuple[int, int]]:
        lowered = error_of(lambda: resource.prlimit(keeper, resource.RLIMIT_CORE, (0, 0)))
        own = error_of(lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0)))
        return lowered, own, resource.getrlimit(resource.RLIMIT_CORE)

    assert under(set_and_read) == (errno.EPERM, 0, (0, 0))


@here
def test_attributes_alone_can_be_refused() -> None:
    def change() -> list[int]:
        with tempfile.NamedTemporaryFile() as file:
            changes = (lambda: os.chmod(file.name, 0o600), lambda: os.setxattr(file.name, "user.a", b"1"))
            return [error_of(change) for change in changes]

    def refused() -> list[int]:
        seccomp.install(seccomp.refusing(seccomp.ATTRIBUTES))
        return change()

    assert under(change) in ([0, 0], [0, errno.EOPNOTSUPP])  # as the file system has it
    assert in_child(refused) == [0, errno.EPERM]


@here
def test_filters_add_up_and_cannot_be_taken_back() -> None:
    def loosen() -> list[int]:
        before = syscall("socket", UNIX, STREAM, 0)
        seccomp.install(seccomp.program(unix_sockets=True))
        return [before, syscall("socket", UNIX, STREAM, 0)]

    assert under(loosen) == [NO_FAMILY, NO_FAMILY]


@here
def test_threads_that_run_already_are_under_it_too() -> None:
    def from_a_thread() -> list[int]:
        go, told = threading.Event(), []
        thread = threading.Thread(target=lambda: (go.wait(), told.append(syscall("unshare", 0))))
        thread.start()
        seccomp.install(seccomp.program(unix_sockets=False))
        go.set()
        thread.join()
        return told

    assert in_child(from_a_thread) == [errno.EPERM]


# what honest code does goes on


def _threads() -> list[int]:
    told: list[int] = []
    threads = [threading.Thread(target=told.append, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sorted(told)


def _processes() -> int:
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    process = context.Process(target=queue.put, args=(7,))
    process.start()
    answer = queue.get()
    process.join()
    return int(answer)


def _pipeline() -> str:
    return subprocess.run("echo a b | wc -w", shell=True, capture_output=True, text=True, check=True).stdout.strip()


def _files() -> bytes:
    with tempfile.TemporaryDirectory() as folder, open(os.path.join(folder, "file"), "w+b") as file:
        file.write(b"kept")
        file.flush()
        fcntl.flock(file, fcntl.LOCK_EX)
        return os.pread(file.fileno(), 4, 0)


async def _echo(unix: bool) -> bytes:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readline())
        writer.close()

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "socket")
        if unix:
            server = await asyncio.start_unix_server(answer, path)
            reader, writer = await asyncio.open_unix_connection(path)
        else:
            server = await asyncio.start_server(answer, "127.0.0.1", 0)
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        async with server:
            writer.write(b"hello\n")
            told = await reader.readline()
            writer.close()
            await writer.wait_closed()
            return told


HONEST: list[tuple[Callable[[], object], dict[str, bool], object]] = [
    (_threads, {}, [0, 1, 2]),
    (_processes, {}, 7),
    (_pipeline, {}, "2"),
    (_files, {}, b"kept"),
    (lambda: [end.close() for end in socket.socketpair()], {}, [None, None]),
    (lambda: socket.if_nameindex()[0][1], {}, "lo"),
    (lambda: asyncio.run(_echo(unix=False)), {}, b"hello\n"),
    (lambda: asyncio.run(_echo(unix=True)), {"unix_sockets": True}, b"hello\n"),
    (lambda: ctypes.CFUNCTYPE(ctypes.c_int)(lambda: 5)(), {}, 5),
]


@here
@pytest.mark.parametrize("uid", users())
@pytest.mark.parametrize(("do", "options", "wanted"), HONEST)
def test_what_honest_code_does_goes_on(
    do: Callable[[], object], options: dict[str, bool], wanted: object, uid: int | None
) -> None:
    assert under(do, uid, **options) == wanted


def _all_reduce(rank: int, port: int) -> None:
    import torch
    import torch.distributed as dist

    store = dist.TCPStore("127.0.0.1", port, 2, False)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=2)
    tensor = torch.full((4,), rank + 1.0)
    dist.all_reduce(tensor)
    assert tensor.tolist() == [3.0] * 4
    dist.barrier()
    dist.destroy_process_group()


@here
def test_gloo_runs_under_it() -> None:
    script = (
        "import sys, multiprocessing, torch.distributed as dist\n"
        "from grader.sandbox import seccomp\n"
        "from test_seccomp import _all_reduce\n"
        "seccomp.install(seccomp.program(unix_sockets=False))\n"
        "store = dist.TCPStore('127.0.0.1', 0, 2, True, wait_for_workers=False)\n"
        "context = multiprocessing.get_context('fork')\n"
        "ranks = [context.Process(target=_all_reduce, args=(rank, store.port)) for rank in range(2)]\n"
        "[rank.start() for rank in ranks]\n"
        "[rank.join() for rank in ranks]\n"
        "sys.exit(sum(rank.exitcode != 0 for rank in ranks))\n"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    ended = subprocess.run(
        [sys.executable, "-c", script],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
