"""What the box costs: verdicts with full isolation and with none at all, on warm engines.

    python benchmarks/box.py [--quick] [--runs N]

A right solution, a deadlock and a wrong result of two exercises. Each mode has a warm engine of its own, and they take
turns, each time in another order; medians are printed, and the ratio is that of the medians. A mode that this machine
does not have is left out.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from _common import ROOT, alone, goal, save

from grader import grading, registry, submission
from grader.exercise import Exercise
from grader.ranks import WORKER
from grader.ranks.engines import Engines
from grader.sandbox import modes
from grader.sandbox.warm import Warm
from grader.submission import Submission

RUNS, QUICK_RUNS = 15, 2
LIMIT = 1.3
SEED = 1
_DEMO, _MUTANTS = ROOT / "demo" / "submissions", ROOT / "tests" / "mutants" / "collectives"
CASES = {
    ("ring_all_reduce", "right"): (_DEMO / "ada.py", None),
    ("ring_all_reduce", "deadlock"): (_DEMO / "dmitri.py", "deadlock"),
    ("ring_all_reduce", "wrong result"): (_DEMO / "farid.py", "wrong_result"),
    ("collectives", "right"): (ROOT / "solutions" / "06-collectives" / "collectives.ipynb", None),
    ("collectives", "deadlock"): (_MUTANTS / "all_gather_sends_first.py", "deadlock"),
    ("collectives", "wrong result"): (_MUTANTS / "all_gather_sends_its_own_again.py", "wrong_result"),
}


@dataclass(frozen=True)
class Case:
    """A submission, and what its verdict says: the kind of a mistake, None if it is right."""

    exercise: Exercise
    name: str
    submission: Submission
    kind: str | None

    def judge(self, engines: Engines) -> float:
        """Seconds until the verdict. Ends us if it is another one than it should be."""
        began = time.perf_counter()
        verdict = grading.grade(self.exercise, self.submission, engines, SEED)
        seconds = time.perf_counter() - began
        kinds = {check.diagnosis.kind for check in verdict.checks if check.diagnosis}
        if (self.kind not in kinds) if self.kind else not verdict.passed:
            sys.exit(f"{self.exercise.name}, {self.name}: {verdict.points} points, {', '.join(sorted(kinds))}")
        return seconds


def cases() -> list[Case]:
    made = []
    for (name, what), (path, kind) in CASES.items():
        found = registry.find(name)
        made.append(Case(found, what, submission.read(Path(path), found.function_names), kind))
    return made


def engines(mode: modes.Mode) -> Engines:
    """Warm engines that isolate so well and no better. Ends us where they turn out not to."""
    before = os.environ.get("RANKUP_SANDBOX")
    os.environ["RANKUP_SANDBOX"] = mode
    try:
        warm = Warm(WORKER)
        warm.wait_until_ready()
        if warm.mode != mode:
            sys.exit(f"asked for isolation {mode}, and got {warm.mode}")
        return Engines(warm)
    finally:
        if before is None:
            del os.environ["RANKUP_SANDBOX"]
        else:
            os.environ["RANKUP_SANDBOX"] = before


def measure(runs: int, available: Sequence[modes.Mode]) -> list[dict[str, Any]]:
    """Print a line for each case as it comes."""
    rows: list[dict[str, Any]] = []
    with contextlib.ExitStack() as stack:
        warm = {mode: stack.enter_context(engines(mode)) for mode in available}
        heads = "".join(f"{mode + ', s':>12}" for mode in available)
        print(
            f"{'':32}{heads}" + "".join(f"{mode + ' of none':>17}" for mode in available if mode != "none"), flush=True
        )
        for case in cases():
            seconds: dict[str, list[float]] = {mode: [] for mode in available}
            for number in range(-1, runs):
                turns = [available[(number + turn) % len(available)] for turn in range(len(available))]
                for mode in turns:
                    took = case.judge(warm[mode])
                    if number >= 0:  # the first warms up
                        seconds[mode].append(took)
            medians = {mode: statistics.median(each) for mode, each in seconds.items()}
            ratios = {mode: medians[mode] / medians["none"] for mode in available if mode != "none"}
            print(
                f"{case.exercise.name:18}{case.name:14}"
                + "".join(f"{medians[mode]:12.3f}" for mode in available)
                + "".join(f"{ratio:17.2f}" for ratio in ratios.values()),
                flush=True,
            )
            rows.append({"exercise": case.exercise.name, "case": case.name, "seconds": seconds, "ratios": ratios})
            rows[-1]["medians"] = medians
    return rows


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--runs", type=int, help=f"verdicts of each in each mode, {RUNS} if left out")
    parser.add_argument("--quick", action="store_true", help=f"only {QUICK_RUNS}: to try the program")
    given = parser.parse_args(arguments)
    runs = given.runs or (QUICK_RUNS if given.quick else RUNS)
    available = []
    for mode in modes.MODES:
        why = "" if mode == "none" else modes.why_not(mode)
        if why:
            print(f"{mode} isolation is not measured: {why}")
        else:
            available.append(mode)
    print(f"medians of {runs} verdicts, {len(os.sched_getaffinity(0))} processors")
    with alone():
        rows = measure(runs, available)
    print()
    goals = [
        goal(f"{row['exercise']}, {row['case']}: {mode} isolation, time", ratio, LIMIT, " x")
        for row in rows
        for mode, ratio in row["ratios"].items()
    ]
    save("box", {"runs": runs, "rows": rows, "goals": goals})


if __name__ == "__main__":
    main()
