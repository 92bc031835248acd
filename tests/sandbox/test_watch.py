"""What a tree of processes takes, and the watchdog that ends one that takes too much."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from grader.sandbox.limits import BoxLimits
from grader.sandbox.watch import Exceeded, Watch, kill_tree, scratch, tree, usage

MIB = 2**20
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


def test_a_tree_is_counted_with_everything_below_it() -> None:
    with running(DAEMONS) as (process, _):
        pids = tree(process.pid)
        took = usage(process.pid)
    assert pids[0] == process.pid
    assert len(pids) == took.processes == 7
    assert took.threads >= 7
    assert 7 * 0.1 * MIB < took.pss_bytes < 7 * 100 * MIB


def test_threads_memory_and_processor_time_are_counted() -> None:
    program = """
import threading, time
held = bytearray(64 * 2**20)
while time.process_time() < 0.2:
    pass
for _ in range(50):
    threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
print("ready", flush=True)
time.sleep(1000)
"""
    with running(program) as (process, _):
        took = usage(process.pid)
    assert took.processes == 1
    assert took.threads == 51
    assert took.pss_bytes > 64 * MIB
    assert took.cpu_seconds > 0.1


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


def test_a_process_that_is_gone_takes_nothing() -> None:
    with subprocess.Popen(["true"]) as process:
        process.wait()
    assert tree(process.pid) == []
    assert usage(process.pid).processes == 0
    kill_tree(process.pid)


def test_kill_tree_leaves_nothing() -> None:
    with running(DAEMONS) as (process, read):
        kill_tree(process.pid)
        assert process.wait() == -signal.SIGKILL
        assert os.read(read, 1) == b"", "the pipe is closed: nobody who could write to it is left"


# what is taken, of what there is too much
GREEDY: list[tuple[str, str, Exceeded]] = [
    ("memory", "held = []\nwhile True: held.append(bytearray(2**20))", "memory"),
    (
        "memory in many processes",
        "for _ in range(4):\n    if os.fork() == 0: break\nheld = bytearray(60 * 2**20)\ntime.sleep(1000)",
        "memory",
    ),
    ("shared memory", "held = mmap.mmap(-1, 2**29)\nheld.write(bytes(2**28))\ntime.sleep(1000)", "memory"),
    ("processes", "while True:\n    if os.fork() == 0: time.sleep(1000)", "processes"),
    ("threads", "while True: threading.Thread(target=time.sleep, args=(1000,)).start()", "processes"),
]


@pytest.mark.parametrize(("program", "reason"), [case[1:] for case in GREEDY], ids=[case[0] for case in GREEDY])
def test_what_takes_too_much_is_ended_and_why_is_known(program: str, reason: str) -> None:
    limits = BoxLimits(memory_bytes=200 * MIB, processes=30)
    with running(f'import mmap, os, threading, time\nprint("ready", flush=True)\n{program}') as (process, read):
        with Watch(process.pid, limits) as watch:
            assert process.wait() == -signal.SIGKILL
            assert os.read(read, 1) == b""
        assert watch.exceeded == reason


def test_what_is_within_its_limits_is_let_be() -> None:
    with running(DAEMONS) as (process, _):
        with Watch(process.pid, BoxLimits()) as watch:
            pass
        assert watch.exceeded is None
        assert process.poll() is None


def test_a_file_system_that_is_larger_than_a_box_is_not_taken_for_its_scratch_space() -> None:
    assert scratch(os.getpid(), ["/", "/nowhere"], 2**20) == (0, 0)
