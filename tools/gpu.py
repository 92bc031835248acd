"""Grade the exercises of ranks with tensors on a GPU, and write the table into docs/gpu.md.

    python -m tools.gpu

Of each exercise the reference, which must get all points, and a wrong solution, which must be caught for its reason.
The tests that need a GPU run first. Exit status: 0 where all is as it should be, 1 where not, 2 without a GPU.
"""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache

from grader import catalog, grading, registry
from grader.authoring import verdicts, wrong
from grader.classroom import devices
from grader.ranks.engines import Engines, gpus
from grader.submission import BadRequest

DEVICE = "cuda"
HEAD = "| exercise | engines | reference | seconds | wrong solution | its verdict |\n|---|---|---|---|---|---|"


@dataclass(frozen=True)
class Row:
    """What came of an exercise: `lost` says what the reference lost points for, `missed` why the wrong solution was not
    caught for its reason; both are empty where all is well."""

    exercise: str
    engines: tuple[str, ...]
    points: str
    seconds: float
    lost: str
    wrong: str
    missed: str

    @property
    def well(self) -> bool:
        return not self.lost and not self.missed

    def line(self) -> str:
        """The row in Markdown."""
        caught = self.missed or "caught for its reason"
        engines, points = ", ".join(self.engines), f"{self.points} {self.lost}".strip()
        return f"| {self.exercise} | {engines} | {points} | {self.seconds:.1f} | {self.wrong} | {caught} |"


@cache
def names() -> tuple[str, ...]:
    """The exercises whose ranks can have their tensors on a GPU."""
    return tuple(name for name in registry.names() if devices.on_devices(registry.find(name)))


def rows(engines: Engines, wanted: Iterable[str], device: str = DEVICE) -> Iterator[Row]:
    """Grade them on `device`, one after another."""
    for name in wanted:
        exercise = registry.find(name)
        one = next(each for each in wrong.wrongs(name) if each.only)
        right = grading.grade(exercise, verdicts.handed_in(name, "reference"), engines, verdicts.SEED, device=device)
        fails = grading.grade(exercise, one.submission, engines, verdicts.SEED, device=device)
        first = right.first_failure
        lost = f"{first.name}: {first.diagnosis.message if first.diagnosis else first.status}" if first else ""
        points = f"{right.points:g} of {right.max_points:g}"
        yield Row(name, right.engines, points, right.seconds, lost, one.name, verdicts.missed(one, fails))


def page(machine: str, found: Iterable[Row]) -> str:
    """docs/gpu.md."""
    told = (
        f"`make test-gpu` graded every exercise of ranks with `--device cuda` on {machine}.",
        "Cases on nccl and gloo had their tensors on GPUs. Cases on sim had them in the host's memory, because only",
        "simulated ranks measure their numbers.",
    )
    return "\n".join(("# On GPUs", "", *told, "", HEAD, *(row.line() for row in found), ""))


def machine() -> str:
    """What nvidia-smi calls the GPUs, and the torch that uses them."""
    asked = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    told = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.splitlines()
    name, _, driver = told[0].partition(", ")
    return f"{gpus()} x {name} (driver {driver}, torch {importlib.metadata.version('torch')})"


def main() -> int:
    """Run the tests and grade."""
    try:
        devices.refuse(DEVICE)
    except BadRequest as why:
        print(f"test-gpu: {why}", file=sys.stderr)
        return 2
    failed = subprocess.run([sys.executable, "-m", "pytest", "-m", "gpu"], check=False).returncode
    found = []
    with Engines() as engines:
        for row in rows(engines, names()):
            print(row.line(), flush=True)
            found.append(row)
    (catalog.root() / "docs" / "gpu.md").write_text(page(machine(), found), encoding="utf-8")
    return int(bool(failed) or not all(row.well for row in found))


if __name__ == "__main__":
    sys.exit(main())
