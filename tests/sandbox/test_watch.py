"""What processes take, and the watchdog that ends a tree that takes too much."""

from __future__ import annotations

import os
import signal

import pytest
from test_supervise import DAEMONS, running

from grader.sandbox import usage
from grader.sandbox.limits import BoxLimits
from grader.sandbox.watch import Exceeded, Watch, scratch

MIB = 2**20


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
    with running(program) as (process, _), usage.machine() as folder:
        (took,) = usage.tree(folder, process.pid)
        pss, shared = usage.proportional_bytes(folder, process.pid) or (0, 0)
    assert took.threads == 51
    assert 64 * MIB < pss <= took.resident_bytes
    assert shared == 0
    assert took.cpu_seconds > 0.1


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
