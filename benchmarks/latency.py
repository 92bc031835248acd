"""How long a learner waits: a verdict on ring_all_reduce, cold, from the warm service and in `rankup watch`, against
one cold torchrun all_reduce on 4 ranks; and from the warm service, for every exercise's reference solution, the first
line of the verdict and all of it.

    python benchmarks/latency.py [--runs N] [--repeat N] [--exercises ring_all_reduce ddp ...]

The commands take turns, so that a machine that changes its speed does so for all. Medians are printed, and of ratios
the median of the pairs. With `--runs 0` only the exercises are measured, after one verdict on each that warms up.
"""

from __future__ import annotations

import argparse
import os
import queue
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from operator import truediv
from pathlib import Path
from typing import Any

from _common import BIN, BUILD, ROOT, alone, environment, goal, run, save

from grader import registry
from grader.classroom.report import MARK
from grader.worlds.nodes import Nodes
from grader.worlds.ranks import Crashes, Ranks

SUBMISSIONS = ROOT / "demo" / "submissions"
RIGHT, WRONG, STUCK = (SUBMISSIONS / f"{name}.py" for name in ("ada", "farid", "dmitri"))
GRADE = (BIN / "rankup", "grade", "ring_all_reduce")
TORCHRUN = "torchrun, 4 ranks, cold"
ALL_REDUCE = """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
t = torch.ones(1000)
dist.all_reduce(t)
dist.destroy_process_group()
"""
OF_TORCHRUN = {"grade, right, cold": 0.30, "grade, right, warm": 0.12, "watch, saved to first failure": 0.06}
CPU_SECONDS = {"--help": 0.15, "list": 0.3}
FIRST_SECONDS, SECONDS = 1.0, 5.0  # until the first line of the verdict, on ranks and nodes; until the end
# they run whole programs again and again
MORE_SECONDS = {"checkpoint": 30.0, "elastic_training": 30.0, "train_elastic": 60.0}


def told(environ: dict[str, str], *command: str | Path, status: int = 0) -> tuple[float, float]:
    """Seconds until a command's first line, and until its end. Ends us if that is not as it should be."""
    done = run([str(word) for word in command], environ)
    if done.status != status:
        sys.exit(f"{command}: status {done.status}\n{done.text}")
    return (done.lines[0][0] if done.lines else done.seconds), done.seconds


def cpu(environ: dict[str, str], *command: str | Path) -> float:
    """Seconds of CPU time that a command takes."""
    process = subprocess.Popen([str(word) for word in command], env=environ, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return used.ru_utime + used.ru_stime


class Watch:
    """`rankup watch` on a file that is saved again and again."""

    def __init__(self, environ: dict[str, str]) -> None:
        self.file = BUILD / "watched.py"
        shutil.copy(RIGHT, self.file)
        command = [str(BIN / "rankup"), "watch", "ring_all_reduce", str(self.file)]
        self.process = subprocess.Popen(
            command, env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
        )
        self.lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()
        self._until("a all checks")

    def _read(self) -> None:
        for line in self.process.stdout or ():
            self.lines.put(line)

    def _until(self, text: str) -> None:
        while text not in self.lines.get(timeout=120):
            pass

    def failure(self) -> float:
        """Seconds from saving what is wrong to the line of the check that fails; then it is right again."""
        time.sleep(0.5)  # a save soon after another may be taken for one with it
        began = time.perf_counter()
        shutil.copy(WRONG, self.file)
        self._until(MARK["fail"][0])
        seconds = time.perf_counter() - began
        self._until("a all checks")
        time.sleep(0.5)
        shutil.copy(RIGHT, self.file)
        self._until("a all checks")
        return seconds

    def end(self) -> None:
        self.process.send_signal(signal.SIGINT)
        self.process.wait()


def commands(runs: int, environ: dict[str, str]) -> list[dict[str, Any]]:
    """Verdicts on ring_all_reduce next to torchrun, in turn, as goals."""
    script = BUILD / "all_reduce.py"
    script.write_text(ALL_REDUCE)
    watch = Watch(environ)
    work: dict[str, Callable[[], float]] = {
        TORCHRUN: lambda: told(environ, BIN / "torchrun", "--nproc-per-node", "4", script)[1],
        "grade, right, cold": lambda: told(environ, *GRADE, RIGHT, "--no-service")[1],
        "grade, right, warm": lambda: told(environ, *GRADE, RIGHT)[1],
        "grade, deadlock, warm": lambda: told(environ, *GRADE, STUCK, status=1)[1],
        "grade, wrong, warm": lambda: told(environ, *GRADE, WRONG, status=1)[1],
        "watch, saved to first failure": watch.failure,
        **{f"{word}, CPU": partial(cpu, environ, BIN / "rankup", "--no-service", word) for word in CPU_SECONDS},
    }
    rows: dict[str, list[float]] = {name: [] for name in work}
    try:
        for number in range(-1, runs):
            for name, each in work.items():
                seconds = each()
                if number >= 0:  # the first warms up
                    rows[name].append(seconds)
    finally:
        watch.end()
    data, base = [], rows[TORCHRUN]
    print(f"{'':30} {'median s':>9} {'min':>7} {'max':>7} {'of torchrun':>12}")
    for name, all_seconds in rows.items():
        median, ratio = statistics.median(all_seconds), statistics.median(map(truediv, all_seconds, base))
        print(f"{name:30} {median:9.2f} {min(all_seconds):7.2f} {max(all_seconds):7.2f} {ratio:12.3f}")
        data.append({"name": name, "median": median, "seconds": all_seconds, "ratio": ratio})
    print()
    of = {row["name"]: row for row in data}
    goals = [goal(name, of[name]["ratio"], most, " of torchrun") for name, most in OF_TORCHRUN.items()]
    goals += [
        goal(f"rankup {word}, CPU", of[f"{word}, CPU"]["median"], most, " s") for word, most in CPU_SECONDS.items()
    ]
    print()
    return data + goals


def exercises(names: Sequence[str], repeat: int, environ: dict[str, str]) -> list[dict[str, Any]]:
    """The verdicts on these exercises' reference solutions, by chapter: printed, and as data."""
    out = []
    print(f"{'exercise':24} {'checks':>6} {'first s':>8} {'goal':>5} {'whole s':>8} {'goal':>5}", flush=True)
    for found in registry.catalogue():
        if found.name not in names:
            continue
        (notebook,) = ROOT.glob(f"solutions/*/{found.name}.ipynb")
        taken = [told(environ, BIN / "rankup", "grade", found.name, notebook, "--seed", "1") for _ in range(repeat + 1)]
        first, whole = (statistics.median(column) for column in zip(*taken[1:], strict=True))
        quick = isinstance(found.world, Ranks | Nodes) and not isinstance(found.world, Crashes)
        limits = FIRST_SECONDS if quick else SECONDS, MORE_SECONDS.get(found.name, SECONDS)
        met = first <= limits[0] and whole <= limits[1]
        row = f"{found.name:24} {len(found.checks):6} {first:8.2f} {limits[0]:5g} {whole:8.2f} {limits[1]:5g}"
        print(f"{row}  {'met' if met else 'NOT met'}", flush=True)
        out.append({"exercise": found.name, "first": first, "whole": whole, "limits": limits, "met": met})
    return out


def main(arguments: Sequence[str] | None = None) -> None:
    names = registry.names()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--runs", type=int, default=9, help="of each command next to torchrun; 0 leaves them out")
    parser.add_argument("--repeat", type=int, default=3, help="verdicts on each exercise")
    parser.add_argument("--exercises", nargs="*", choices=names, default=names, metavar="NAME", help="not all of them")
    given = parser.parse_args(arguments)
    BUILD.mkdir(parents=True, exist_ok=True)
    with alone() as folder:
        environ = environment(RANKUP_DATA=folder / "data", XDG_RUNTIME_DIR=folder)
        # with the first two there is no service; with the last, all of ours would be compiled for every command
        for name in ("RANKUP_NO_SERVICE", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE"):
            environ.pop(name, None)
        rows = commands(given.runs, environ) if given.runs else []
        verdicts = exercises(given.exercises, given.repeat, environ)
    missed = [row["exercise"] for row in verdicts if not row["met"]]
    print(f"{'NOT met' if missed else 'met':8} every verdict in time{': not ' + ', '.join(missed) if missed else ''}")
    save("latency", {"commands": rows, "exercises": verdicts})


if __name__ == "__main__":
    main()
