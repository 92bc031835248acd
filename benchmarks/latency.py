"""How long a learner waits: a verdict on ring_all_reduce against one cold torchrun all_reduce on 4 ranks, and the full
warm verdict on the reference solution of every exercise against the seconds that it may take.

    python benchmarks/latency.py [--runs N] [--repeat N] [--exercises ring_all_reduce ddp ...]

The first two take turns, so that a machine that changes its speed does so for both; medians and ratios are printed.
With `--runs 0` only the verdicts on the exercises are measured: after one that warms up, the median of each.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from _common import BIN, BUILD, ROOT, save

from grader import grading, registry, submission
from grader.exercise import Exercise
from grader.ranks.engines import Engines

SUBMISSIONS = ROOT / "demo" / "submissions"
SECONDS = 5.0  # that the verdict on an exercise may take
MORE_SECONDS = {"checkpoint": 30.0, "elastic_training": 30.0}  # they run whole programs again and again
ALL_REDUCE = """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
t = torch.ones(1000)
dist.all_reduce(t)
dist.destroy_process_group()
"""


def timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def command(*arguments: str | Path, status: int = 0) -> Callable[[], None]:
    def run() -> None:
        done = subprocess.run([str(a) for a in arguments], capture_output=True, text=True, env=dict(os.environ))
        if done.returncode != status:
            sys.exit(f"{arguments}: status {done.returncode}\n{done.stdout}{done.stderr}")

    return run


def warm_verdicts(engines: Engines) -> dict[str, Callable[[], None]]:
    """Full verdicts with everything already imported, as a notebook or a class sees them."""
    ring = registry.find("ring_all_reduce")

    def verdict(name: str, passes: bool) -> Callable[[], None]:
        handed_in = submission.read(SUBMISSIONS / f"{name}.py", ring.function_names)

        def run() -> None:
            assert grading.grade(ring, handed_in, engines, seed=1).passed is passes

        return run

    return {"verdict, right, warm": verdict("ada", True), "verdict, deadlock, warm": verdict("dmitri", False)}


def reference(found: Exercise, engines: Engines) -> Callable[[], None]:
    """The full verdict on what the exercise's notebook in solutions/ teaches."""
    (notebook,) = ROOT.glob(f"solutions/*/{found.name}.ipynb")
    handed_in = submission.read(notebook, found.function_names)

    def run() -> None:
        verdict = grading.grade(found, handed_in, engines, seed=1)
        if not verdict.passed:
            said = [check.diagnosis.message for check in verdict.checks if check.diagnosis]
            sys.exit(f"{found.name}: the reference solution has {verdict.points:g} points\n" + "\n".join(said))

    return run


def exercises(names: Sequence[str], repeat: int, engines: Engines) -> list[dict[str, Any]]:
    """Measure the verdicts on these exercises' reference solutions and print them, by chapter; return them as data."""
    out = []
    print(f"{'exercise':24} {'checks':>6} {'median s':>9} {'min':>7} {'max':>7} {'goal s':>7}", flush=True)
    for found in registry.catalogue():
        if found.name not in names:
            continue
        verdict = reference(found, engines)
        verdict()
        seconds = [timed(verdict) for _ in range(repeat)]
        median, limit = statistics.median(seconds), MORE_SECONDS.get(found.name, SECONDS)
        met = median < limit
        print(
            f"{found.name:24} {len(found.checks):6} {median:9.2f} {min(seconds):7.2f} {max(seconds):7.2f} {limit:7g}  "
            f"{'met' if met else 'NOT met'}",
            flush=True,
        )
        row = {"exercise": found.name, "checks": len(found.checks), "median": median, "limit": limit, "met": met}
        out.append(row | {"min": min(seconds), "max": max(seconds)})
    return out


def table(rows: dict[str, list[float]], base: str) -> list[dict[str, Any]]:
    """Print name, median, minimum, maximum and the ratio to `base`; return the same as data."""
    reference = statistics.median(rows[base])
    out = []
    print(f"{'':28} {'median s':>9} {'min':>7} {'max':>7} {'of torchrun':>12}")
    for name, seconds in rows.items():
        median = statistics.median(seconds)
        ratio = median / reference
        print(f"{name:28} {median:9.2f} {min(seconds):7.2f} {max(seconds):7.2f} {ratio:12.3f}")
        out.append({"name": name, "median": median, "min": min(seconds), "max": max(seconds), "ratio": ratio})
    return out


def commands(runs: int, engines: Engines) -> list[dict[str, Any]]:
    """Verdicts on ring_all_reduce next to torchrun, by turns."""
    script = BUILD / "all_reduce.py"
    script.write_text(ALL_REDUCE)
    grade = (BIN / "rankup", "grade", "ring_all_reduce")
    work = {
        "torchrun, 4 ranks, cold": command(BIN / "torchrun", "--nproc-per-node", "4", script),
        "rankup grade, right, cold": command(*grade, SUBMISSIONS / "ada.py"),
        "rankup grade, deadlock, cold": command(*grade, SUBMISSIONS / "dmitri.py", status=1),
        **warm_verdicts(engines),
    }
    for each in work.values():
        each()
    rows: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(runs):
        for name, each in work.items():
            rows[name].append(timed(each))
    data = table(rows, "torchrun, 4 ranks, cold")
    print()
    return data


def main(arguments: Sequence[str] | None = None) -> None:
    names = registry.names()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--runs", type=int, default=5, help="of each command next to torchrun; 0 leaves them out")
    parser.add_argument("--repeat", type=int, default=3, help="verdicts on each exercise")
    parser.add_argument("--exercises", nargs="+", choices=names, default=names, metavar="NAME", help="not all of them")
    given = parser.parse_args(arguments)
    BUILD.mkdir(parents=True, exist_ok=True)
    os.environ["RANKUP_DATA"] = str(BUILD / "data")
    with Engines() as engines:
        rows = commands(given.runs, engines) if given.runs else []
        verdicts = exercises(given.exercises, given.repeat, engines)
    missed = [row["exercise"] for row in verdicts if not row["met"]]
    print(f"{'NOT met' if missed else 'met':8} every verdict in time{': not ' + ', '.join(missed) if missed else ''}")
    save("latency", {"commands": rows, "exercises": verdicts})


if __name__ == "__main__":
    main()
