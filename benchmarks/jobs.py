"""How long a learner waits for Spark and Ray: each exercise's verdict with the engine warm and from cold, and a Spark
session as it is lent here against the one that `pip install pyspark` starts.

    python benchmarks/jobs.py [--repeat N] [--exercises spark_rdd ...] [--no-sessions]

"warm" is the median of verdicts on the reference solution after one that is not counted; "cold" has the engine started
for it. Sessions take turns, each in a process of its own.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from _common import ROOT, save

from grader import grading, registry, submission
from grader.exercise import Exercise
from grader.jobs.sparks import java
from grader.ranks.engines import Engines

SECONDS, MORE_SECONDS = 15.0, {"stream_exactly_once": 60.0, "ray_train": 60.0}
SESSION_SECONDS = 8.0
WORK = "spark.range(1000).selectExpr('sum(id)').collect()\n"
OURS = "from grader.jobs.sparks.local import session\nspark = session()\n" + WORK
THEIRS = "from pyspark.sql import SparkSession\nspark = SparkSession.builder.master('local[2]').getOrCreate()\n" + WORK


def ours(found: Exercise) -> bool:
    """Whether the exercise is run on an engine that this measures."""
    return found.chapter in ("04", "05", "13")


def timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


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


def verdicts(names: list[str], repeat: int) -> list[dict[str, Any]]:
    rows = []
    print(f"{'exercise':24} {'checks':>6} {'cold s':>8} {'warm s':>8} {'goal s':>7}", flush=True)
    for found in registry.catalogue():
        if found.name not in names:
            continue
        with Engines() as engines:
            engines.warm.wait_until_ready()
            verdict = reference(found, engines)
            cold = timed(verdict)
            warm = statistics.median(timed(verdict) for _ in range(repeat))
        limit = MORE_SECONDS.get(found.name, SECONDS)
        met = "met" if warm < limit else "NOT met"
        print(f"{found.name:24} {len(found.checks):6} {cold:8.2f} {warm:8.2f} {limit:7g}  {met}", flush=True)
        rows.append({"exercise": found.name, "cold": cold, "warm": warm, "limit": limit, "met": warm < limit})
    return rows


def sessions(repeat: int) -> list[dict[str, Any]]:
    """A process that starts a session and runs one query, to its end; ours and PySpark's take turns."""
    if why := java.missing():
        print(f"no sessions: {why}")
        return []
    if shutil.which("java") is None:
        print("no sessions: PySpark by itself needs a Java of the system's, and there is none")
        return []
    java.prepared()
    home = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    seconds: dict[str, list[float]] = {"ours": [], "pyspark": []}
    for _ in range(repeat):
        for name, text in (("ours", OURS), ("pyspark", THEIRS)):

            def run(text: str = text) -> None:
                line = [sys.executable, "-c", text]
                subprocess.run(line, cwd=ROOT, env=home, capture_output=True, check=True)

            seconds[name].append(timed(run))
    rows = []
    base = statistics.median(seconds["pyspark"])
    print(f"{'session and one query':24} {'median s':>9} {'of pyspark':>11} {'goal s':>7}")
    for name, found in seconds.items():
        median = statistics.median(found)
        print(f"{name:24} {median:9.2f} {median / base:11.2f} {SESSION_SECONDS if name == 'ours' else '':>7}")
        rows.append({"session": name, "median": median, "ratio": median / base})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--exercises", nargs="*", default=[found.name for found in registry.catalogue() if ours(found)])
    parser.add_argument("--no-sessions", action="store_true")
    asked = parser.parse_args()
    rows = verdicts(asked.exercises, asked.repeat)
    save("jobs", {"verdicts": rows, "sessions": [] if asked.no_sessions else sessions(asked.repeat)})


if __name__ == "__main__":
    main()
