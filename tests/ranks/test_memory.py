"""Many worlds, one after another: neither the ranks' process nor the grading one keeps anything of them."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from often import by_day, often

from grader.ranks.engines import Engines
from grader.ranks.program import Limits, Program, same_for_all
from tests import processes

MIB = 2**20
FIRST = 20  # worlds after which everything that is made once has been made
MOST_GROWTH = 4 * MIB
HEAD = """\
import torch, torch.distributed as dist
def f():
    r, n, x = dist.get_rank(), dist.get_world_size(), torch.zeros(BIG) + dist.get_rank()
    y = torch.empty(BIG)
"""
PROGRAMS = {
    "a ring": "for _ in range(n):\n    q = dist.isend(x, (r+1)%n); dist.recv(y, (r-1)%n); q.wait(); x, y = y, x",
    "collectives in groups": (
        "g = [dist.new_group(list(range(k, n, 2))) for k in range(2)][r % 2]\n"
        "dist.all_reduce(x, group=g); o = [torch.empty(BIG) for _ in range(g.size())]\n"
        "dist.all_gather(o, x, group=g); w = dist.broadcast(y, src=0, async_op=True); w.wait()"
    ),
    "a send not waited for": "q = dist.isend(x, (r+1)%n); dist.recv(y, (r-1)%n)",
    "a receive not waited for": "dist.irecv(y, (r-1)%n); dist.send(x, (r+1)%n)",
    "messages that nobody receives": "[dist.isend(x, (r+1)%n) for _ in range(3)]",
    "a collective not waited for": "w = dist.all_reduce(x, async_op=True); dist.barrier()",
    "objects": (
        "o = [None] * n; dist.all_gather_object(o, ['a' * BIG, r])\n"
        "dist.broadcast_object_list(o, src=0); dist.scatter_object_list([None], o, src=1)"
    ),
    "a future": "w = dist.all_reduce(x, async_op=True); w.get_future().then(lambda done: done.value()).wait()",
}


@pytest.fixture(scope="module")
def engines() -> Iterator[Engines]:
    """Engines of these tests' own: in the shared ones a Ray that others have used is deeper than any rank."""
    with Engines() as warm:
        yield warm


def resident(pid: int) -> int:
    """Bytes of memory that a process has for itself, and its part of what it shares."""
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return int(re.search(r"^Pss:\s+(\d+) kB", rollup, re.MULTILINE)[1]) * 1024  # type: ignore[index]


def descriptors(pid: int | str = "self") -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def threads(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/task"))


def program(body: str, big: int) -> Program:
    lines = "".join(f"    {line}\n" for line in body.split("\n"))
    return Program.of((HEAD + lines).replace("BIG", str(big)), "learner.py", "f")


def growth(engines: Engines, body: str, worlds: int, big: int = 4096, calls: int = 1) -> tuple[int, int, int]:
    """By how many bytes, open files and threads the ranks' process grows over so many worlds, after the first."""
    code, limits = program(body, big), Limits(cpu_seconds=30, idle_seconds=60, silent_seconds=60)
    with engines.session() as session:

        def world() -> int:
            run = engines.run("sim", code, 4, [same_for_all(4)] * calls, limits=limits, session=session)
            assert run.finished, run.diagnoses
            return _pid(engines)

        pid = {world() for _ in range(FIRST)}.pop()
        before = resident(pid), descriptors(pid), threads(pid)
        pids = {world() for _ in range(worlds - FIRST)}
        assert pids == {pid}, "not one process"
        after = resident(pid), descriptors(pid), threads(pid)
    return after[0] - before[0], after[1] - before[1], after[2] - before[2]


def _pid(engines: Engines) -> int:
    (pid,) = processes.ranks(engines.warm)
    return pid


def check(grown: tuple[int, int, int], worlds: int) -> None:
    size, files, more_threads = grown
    told = f"{size / MIB:.1f} MiB, {files} open files and {more_threads} threads more after {worlds} worlds"
    assert size < MOST_GROWTH * (1 if worlds < 100 else 2), told
    assert files <= 2, told
    assert more_threads <= 4, told  # the last world's may still be on their way out


@pytest.mark.parametrize("name", by_day(PROGRAMS.keys(), 2))
def test_the_ranks_process_keeps_nothing_of_a_world(engines: Engines, name: str) -> None:
    size, files, more_threads = growth(engines, PROGRAMS[name], 60, big=2**16)  # 256 KiB, which one must not keep
    assert size < 40 * 2**18, f"{size / MIB:.1f} MiB"
    check((0, files, more_threads), 60)


@pytest.mark.parametrize("name", by_day(PROGRAMS.keys()))
def test_the_ranks_process_keeps_nothing_of_many_worlds(engines: Engines, name: str) -> None:
    check(growth(engines, PROGRAMS[name], 500), 500)


@pytest.mark.parametrize(
    "name", often([name for name in PROGRAMS if "groups" not in name], "objects")
)  # groups stay until destroyed
def test_a_world_keeps_nothing_of_a_call(engines: Engines, name: str) -> None:
    code, limits = program(PROGRAMS[name], 2**16), Limits(cpu_seconds=60, idle_seconds=60, silent_seconds=60)
    with engines.session() as session:
        sizes = []
        for calls in (20, 100):
            run = engines.run("sim", code, 4, [same_for_all(4)] * calls, limits=limits, session=session)
            assert run.finished, run.diagnoses
            sizes.append(resident(_pid(engines)))
    assert sizes[1] - sizes[0] < 80 * 2**18, f"{(sizes[1] - sizes[0]) / MIB:.1f} MiB"


def _worlds_that_end_in_every_way(engines: Engines) -> list[Callable[[], object]]:
    """Runs that finish, deadlock, raise, and die, each in processes of its own."""
    bodies = [
        PROGRAMS["a ring"],
        "dist.send(x, (r+1)%n)",
        "if r == 1: 1 / 0\ndist.barrier()",
        "if r == 1: import os; os._exit(1)\ndist.barrier()",
    ]
    return [lambda body=body: engines.run("sim", program(body, 64), 3, [same_for_all(3)]) for body in bodies]  # type: ignore[misc]


@pytest.mark.heavy
def test_the_grading_process_keeps_no_thread_and_no_file_of_a_world(engines: Engines) -> None:
    ways = _worlds_that_end_in_every_way(engines)
    for way in ways:
        way()
    before = threading.active_count(), descriptors(), len(os.listdir("/proc/self/task"))
    for k in range(100):
        ways[k % len(ways)]()
    after = threading.active_count(), descriptors(), len(os.listdir("/proc/self/task"))
    assert after == before
