"""A course as it is usually made: nbgrader, notebooks whose own cells start ranks and assert what they return.

Nobody counts bytes, messages or rounds here, and a hang is whatever has not ended after a timeout.
"""

from __future__ import annotations

import re
import sqlite3
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import nbformat
from _common import HandedIn, Ran, environment, hand_in, run
from nbformat.v4 import new_code_cell, new_notebook

ASSIGNMENT, NOTEBOOK = "ring", "ring_all_reduce"
TIMEOUT = 30
_CONFIG = """
c = get_config()
c.CourseDirectory.course_id = "plain"
c.Execute.timeout = 600
"""
_SOLUTION = """%%writefile solution.py
import torch
import torch.distributed as dist

def ring_all_reduce(tensor):
    raise NotImplementedError
"""
# Functions of a notebook cannot be pickled for a spawned process, so both texts go into files, as people do it.
_RANKS = """%%writefile ranks.py
import os
import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def values(shape, dtype, rank):
    generator = torch.Generator().manual_seed(rank)
    return torch.randint(-(2**40), 2**40, shape, generator=generator).to(dtype)


def laid_out(tensor, layout):
    if layout == "transposed":
        return tensor.T.contiguous().T
    if layout == "every third":
        return tensor.repeat_interleave(3, 0)[::3]
    return tensor


def rank_main(rank, world, folder, cases):
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{{folder}}/store", rank=rank, world_size=world)
    from solution import ring_all_reduce

    tensors = [laid_out(values(shape, dtype, rank), layout) for shape, dtype, layout in cases]
    for tensor in tensors:
        ring_all_reduce(tensor)
    torch.save(tensors, f"{{folder}}/{{rank}}.pt")
    dist.destroy_process_group()


def check(world, *cases):
    with tempfile.TemporaryDirectory() as folder:
        context = mp.spawn(rank_main, (world, folder, cases), nprocs=world, join=False)
        deadline = time.monotonic() + {timeout}
        try:
            while not context.join(timeout=max(0.0, deadline - time.monotonic())):
                assert time.monotonic() < deadline, "not done after {timeout} s"
        finally:
            for process in context.processes:
                process.kill()
                process.join()
        for rank in range(world):
            for tensor, (shape, dtype, _) in zip(torch.load(f"{{folder}}/{{rank}}.pt"), cases):
                expected = sum(values(shape, dtype, other) for other in range(world))
                assert torch.equal(tensor, expected), f"wrong on rank {{rank}} of {{world}}, shape {{shape}}"
"""
_TESTS = {
    "sum": """import torch
from ranks import check

for world in (2, 3, 4):
    check(world, ((3 * world,), torch.float64, ""), ((6 * world,), torch.int64, ""))""",
    "any-length": """world = 3
check(world, *(((length,), torch.int64, "") for length in (0, 1, world - 1, 2 * world + 1)))""",
    "any-layout": """check(
    3,
    ((6,), torch.int64, "every third"), ((3, 3), torch.int64, ""), ((2, 6), torch.int64, "transposed"),
)""",
    "large": """check(4, ((2**17 + 4,), torch.float64, ""))""",
}
POINTS = {"sum": 4, "any-length": 3, "any-layout": 2, "large": 2}


@dataclass(frozen=True)
class Plain:
    """What `nbgrader autograde` took: seconds until it began with the first student and for each, and their points."""

    seconds: float
    start: float
    each: dict[str, float]
    points: dict[str, float]

    def seconds_for(self, ending: Sequence[str], hanging: Sequence[str], class_ends: int, class_hangs: int) -> float:
        """What it would take for a class of which so many end and hang, by these students who do."""
        ends = fmean(self.each[student] for student in ending)
        hangs = fmean(self.each[student] for student in hanging) if hanging else 0.0
        return self.start + class_ends * ends + class_hangs * hangs


def grade(folder: Path, students: Sequence[HandedIn], timeout: int = TIMEOUT) -> Plain:
    """Make such a course in `folder`, have the students hand in, and autograde them all."""
    source = folder / "source" / ASSIGNMENT / f"{NOTEBOOK}.ipynb"
    source.parent.mkdir(parents=True)
    (folder / "nbgrader_config.py").write_text(_CONFIG)
    nbformat.write(_notebook(timeout), source)
    _nbgrader(folder, "generate_assignment")
    released = folder / "release" / ASSIGNMENT / source.name
    for each in students:
        path = folder / "submitted" / each.student / ASSIGNMENT / source.name
        hand_in(path, released, f"%%writefile solution.py\n{each.source}")
    done = _nbgrader(folder, "autograde")
    began = [
        (seconds, found[1])
        for seconds, line in done.lines
        if (found := re.search(r"Converting notebook .*/submitted/([^/]+)/", line))
    ]
    ends = [seconds for seconds, _ in began[1:]] + [done.seconds]
    took = {student: end - start for (start, student), end in zip(began, ends, strict=True)}
    return Plain(done.seconds, began[0][0], took, _points(folder / "gradebook.db"))


def _notebook(timeout: int) -> Any:
    cells = [
        _cell("solution", _SOLUTION, solution=True, locked=False),
        _cell("ranks", _RANKS.format(timeout=timeout)),
        *(_cell(name, text, points=POINTS[name]) for name, text in _TESTS.items()),
    ]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return new_notebook(cells=cells, metadata={"kernelspec": kernel})


def _cell(name: str, text: str, points: int = 0, solution: bool = False, locked: bool = True) -> Any:
    marks: dict[str, Any] = {"grade": points > 0, "grade_id": name, "locked": locked, "schema_version": 3}
    marks |= {"solution": solution, "task": False, **({"points": points} if points else {})}
    return new_code_cell(text, metadata={"nbgrader": marks})


def _nbgrader(folder: Path, command: str) -> Ran:
    home = dict.fromkeys(("JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR"), folder / "home")
    done = run(
        [sys.executable, "-m", "nbgrader", command, ASSIGNMENT], environment(**home, OMP_NUM_THREADS="1"), folder
    )
    if done.status:
        sys.exit(f"nbgrader {command}: status {done.status}\n{done.text}")
    return done


def _points(gradebook: Path) -> dict[str, float]:
    query = (
        "select a.student_id, sum(g.auto_score) from grade g join submitted_notebook n on n.id = g.notebook_id "
        "join submitted_assignment a on a.id = n.assignment_id group by a.student_id"
    )
    book = sqlite3.connect(gradebook)
    try:
        return {student: points or 0.0 for student, points in book.execute(query)}
    finally:
        book.close()
