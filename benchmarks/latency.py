"""How long a learner waits: a verdict on ring_all_reduce against one cold torchrun all_reduce on 4 ranks.

    python benchmarks/latency.py [--runs N]

The two take turns, so that a machine that changes its speed does so for both; medians and ratios are printed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
SUBMISSIONS = ROOT / "demo" / "submissions"
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


def warm_verdicts() -> dict[str, Callable[[], None]]:
    """Full verdicts with everything already imported, as a notebook or a class sees them."""
    from grader import exercise, submission
    from grader.ranks.engines import Engines

    engines = Engines()
    ring = exercise.find("ring_all_reduce")

    def verdict(name: str, passes: bool) -> Callable[[], None]:
        handed_in = submission.read(SUBMISSIONS / f"{name}.py", ring.function_names)

        def run() -> None:
            assert exercise.grade(ring, handed_in, engines, seed=1).passed is passes

        return run

    return {"verdict, right, warm": verdict("ada", True), "verdict, deadlock, warm": verdict("dmitri", False)}


def table(rows: dict[str, list[float]], base: str) -> list[dict[str, object]]:
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


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--runs", type=int, default=5)
    runs = parser.parse_args(arguments).runs
    script = ROOT / "build" / "bench" / "all_reduce.py"
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text(ALL_REDUCE)
    grade = (BIN / "rankup", "grade", "ring_all_reduce")
    os.environ["RANKUP_DATA"] = str(script.parent / "data")
    work = {
        "torchrun, 4 ranks, cold": command(BIN / "torchrun", "--nproc-per-node", "4", script),
        "rankup grade, right, cold": command(*grade, SUBMISSIONS / "ada.py"),
        "rankup grade, deadlock, cold": command(*grade, SUBMISSIONS / "dmitri.py", status=1),
        **warm_verdicts(),
    }
    for each in work.values():
        each()
    rows: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(runs):
        for name, each in work.items():
            rows[name].append(timed(each))
    data = table(rows, "torchrun, 4 ranks, cold")
    (script.parent / "latency.json").write_text(json.dumps(data, indent=1))


if __name__ == "__main__":
    main()
