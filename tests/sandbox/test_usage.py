"""What the kernel counts of processes, on this very machine."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from grader.sandbox import LINUX, usage

BURN = "import time\nwhile time.process_time() < 0.3: pass\nprint('done', flush=True)\ninput()"


@pytest.mark.skipif(not LINUX, reason="only Linux counts this")
def test_who_shares_a_processor_is_delayed() -> None:
    """Two processes on one processor: what one computes the other waits for."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        both = [
            subprocess.Popen([sys.executable, "-c", BURN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            for _ in range(2)
        ]
        began = time.monotonic()
        assert [each.stdout.readline() for each in both if each.stdout] == ["done\n"] * 2
        with usage.machine() as folder:
            delayed = [usage.delayed_seconds(folder, each.pid) for each in both]
            assert usage.delayed_seconds(folder, 2**22 + 1) == 0.0, "a process that is not there"
        waited = time.monotonic() - began
        for each in both:
            each.communicate("\n")
    finally:
        os.sched_setaffinity(0, before)
    assert 0.1 < max(delayed) <= waited + 1, (delayed, waited)
