"""Children end with whoever forked them, have the descriptors that they are to have, and nothing below is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from forked import in_child

from grader.sandbox import bwrap, supervise
from grader.sandbox.supervise import kill_tree, tree

DAEMONS = """
import os, time
read, write = os.pipe()
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.write(write, b"x")
            time.sleep(1000)
        os.wait()
for _ in range(3):
    os.read(read, 1)
print("ready", flush=True)
time.sleep(1000)
"""


@contextmanager
def running(program: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """A Python program that has said "ready", and a pipe that ends when nothing of it is left."""
    read, write = os.pipe()
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, pass_fds=[write])
    os.close(write)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield process, read
    finally:
        kill_tree(process.pid)
        process.communicate()
        os.close(read)


def status_of(act: Callable[[], int | None]) -> int:
    """How a child ends that does this, forked by a process that is ours alone."""
    return in_child(lambda: os.waitstatus_to_exitcode(os.waitpid(supervise.fork(act), 0)[1]))


def raises() -> int:
    os.close(2)  # what it says is nobody's business here
    raise ValueError


@pytest.mark.parametrize(("act", "status"), [(lambda: None, 0), (lambda: 7, 7), (raises, 70)])
def test_a_child_ends_with_what_its_work_returns(act: Callable[[], int | None], status: int) -> None:
    assert status_of(act) == status


@pytest.mark.parametrize("dies", [True, False])
def test_a_child_is_killed_with_its_parent_where_it_is_to_be(dies: bool) -> None:
    (read, write), (told, tell) = os.pipe(), os.pipe()

    def child() -> None:
        supervise.close_others([read, tell])
        os.write(tell, b"%d" % os.getpid())
        while os.read(read, 1):  # nobody writes: until we close our end, or it is killed
            pass
        os.write(tell, b" closed")

    def parent() -> bytes:
        os.close(write)
        supervise.fork(child, dies)
        return os.read(told, 100)

    assert int(in_child(parent)) > 0
    os.close(tell)
    if dies:
        assert os.read(told, 100) == b""  # the end of the file: it is gone, and was not let go
    os.close(write)
    assert os.read(told, 100) == (b"" if dies else b" closed")
    for fd in (read, told):
        os.close(fd)


def opened() -> list[int]:
    return [int(fd) for fd in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{fd}")]


def test_a_child_has_the_descriptors_that_it_is_to_have() -> None:
    def kept() -> int:
        pipes = [fd for _ in range(4) for fd in os.pipe()]
        wanted = sorted([1, pipes[0], pipes[1], pipes[6]])
        supervise.close_others(wanted)
        os.write(pipes[1], b"told")
        return int(sorted({*opened(), 0, 1, 2}) != sorted({0, 2, *wanted}) or os.read(pipes[0], 9) != b"told")

    def renumbered() -> int:
        read, write = os.pipe()
        os.dup2(os.open(os.devnull, os.O_RDWR), 0)
        supervise.renumber([write, 0, read])
        os.write(0, b"told")
        return int(os.read(2, 9) != b"told" or sorted(opened()) != [0, 1, 2])

    assert (status_of(kept), status_of(renumbered)) == (0, 0)


def test_all_descendants_end_and_are_reaped() -> None:
    def end() -> list[int]:
        supervise.become_subreaper()
        with subprocess.Popen([sys.executable, "-c", DAEMONS], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            supervise.end_descendants()
            return tree(os.getpid())[1:]

    assert in_child(end) == []


def test_children_of_any_thread_are_found() -> None:
    program = """
import subprocess, sys, threading, time
for _ in range(40):
    threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
def start():
    subprocess.Popen(["sleep", "1000"])
    print("ready", flush=True)
    time.sleep(1000)
threading.Thread(target=start).start()
"""
    with running(program) as (process, _):
        assert len(tree(process.pid)) == 2


def test_kill_tree_leaves_nothing() -> None:
    with running(DAEMONS) as (process, read):
        pids = tree(process.pid)
        assert (pids[0], len(pids)) == (process.pid, 7)
        kill_tree(process.pid)
        assert process.wait() == -signal.SIGKILL
        assert os.read(read, 1) == b"", "the pipe is closed: nobody who could write to it is left"
        assert tree(process.pid) == []
        kill_tree(process.pid)


CLOSED_AT_ONCE = """
import psutil
from grader.ranks import WORKER
from grader.sandbox import bwrap, supervise
from grader.sandbox.warm import Warm

supervise.become_subreaper()
for _ in range(5):
    warm = Warm(WORKER)
    while len(supervise.tree(warm._process.pid)) < 2:  # bwrap has forked, and its child waits for a word from it
        pass
    warm.close()
print([pid for pid in supervise.children() if psutil.Process(pid).status() != psutil.STATUS_ZOMBIE])
supervise.end_descendants()
"""


@pytest.mark.skipif(bwrap.program() is None, reason="bubblewrap is not here")
def test_a_host_that_is_closed_while_it_starts_leaves_nothing() -> None:
    done = subprocess.run(
        [sys.executable, "-c", CLOSED_AT_ONCE], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "[]\n"
