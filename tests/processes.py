"""Which processes are there: a box's own numbers for its processes mean nothing outside of it."""

from __future__ import annotations

import contextlib

import psutil

from grader.sandbox.warm import Warm


def below(warm: Warm) -> list[psutil.Process]:
    """The warm process and everything below it."""
    top = psutil.Process(warm._process.pid)
    return [top, *top.children(recursive=True)]


def ranks(warm: Warm) -> list[int]:
    """The ranks of the boxes that there are: what the boxes' first processes have forked, and no more than that."""
    found = below(warm)
    depth = {each.pid: len(each.parents()) for each in found}
    deepest = max(depth.values())
    return sorted(pid for pid, level in depth.items() if level == deepest)


def left_of_boxes(warm: Warm) -> list[psutil.Process]:
    """What is still there of boxes that have ended, when it had time to go: keepers are the last."""
    host = psutil.Process(warm._process.pid)
    for _ in range(2 if warm.mode == "full" else 0):  # bubblewrap, outside and inside
        (host,) = host.children()
    return psutil.wait_procs(host.children(recursive=True), timeout=5)[1]


def computing(root: int) -> bool:
    """Whether a rank below the process `root` has computed for a while."""
    with contextlib.suppress(psutil.Error):
        top = psutil.Process(root)
        above = len(top.parents())
        for each in top.children(recursive=True):
            if len(each.parents()) - above >= 4 and each.cpu_times().user > 0.1:
                return True
    return False
