"""How far simulated ranks go: all-reduce on up to 8,192 of them, next to SimGrid's SMPI doing the same in C.

    python benchmarks/sim_scale.py [--quick] [--ranks 64 512] [--repeat N]

A ring in 2(N-1) steps with isend and irecv, and recursive doubling in log2 N rounds. Both sides simulate the same links
(alpha + S x beta a message, one port a rank, rendezvous). Counted is the CPU time, user and system, of the simulating
process from its start to its end; an operation is one send or one receive. Rankup's tracing is off; SMPI has the
fastest settings that still simulate those links: no measuring of computation, no privatization, plain CM02 network.
SMPI is Debian's libsimgrid-dev; without it only rankup is measured.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import psutil

from grader.ranks.engines import Engines
from grader.ranks.network import Network
from grader.ranks.program import Call, Limits, Program, Strided

HERE = Path(__file__).resolve().parent
BUILD = HERE.parent / "build" / "bench"
ALPHA, BETA = 5e-6, 1e-9
NETWORK = Network(alpha=ALPHA, beta=BETA)
LIMITS = Limits(3600, wall_seconds=7200, idle_seconds=300, silent_seconds=7200)  # without a trace, a run is silent
RING_RANKS, DOUBLING_RANKS = (64, 256, 512, 1024), (1024, 8192)
SMPI = (
    "--cfg=smpi/simulate-computation:no",
    "--cfg=smpi/privatization:no",
    "--cfg=network/model:CM02",
    "--cfg=network/crosstraffic:no",
    "--cfg=smpi/async-small-thresh:0",
    "--cfg=smpi/send-is-detached-thresh:0",
    "--cfg=contexts/stack-size:64",
    "--log=root.thresh:critical",
)
PLATFORM = """<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">
  <cluster id="cluster" prefix="rank-" suffix="" radical="0-{last}" speed="1Gf" bw="{bandwidth:g}Bps" lat="{half:g}s"/>
</platform>
"""
# In a small process between: a child's peak of memory is at least what its parent had when it started it.
MEASURED = """
import resource, subprocess, sys
status = subprocess.call(sys.argv[1:])
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_utime + used.ru_stime, used.ru_maxrss)
sys.exit(status)
"""
PROGRAM = """
import torch, torch.distributed as dist

def ring(x):
    n, rank = dist.get_world_size(), dist.get_rank()
    right, left = (rank + 1) % n, (rank - 1) % n
    chunks = x.chunk(n)
    incoming = torch.empty_like(chunks[0])
    for step in range(2 * (n - 1)):
        reducing = step < n - 1
        give = (rank - step) % n
        own = chunks[give - 1]
        sending = dist.isend(chunks[give], right)
        receiving = dist.irecv(incoming if reducing else own, left)
        sending.wait()
        receiving.wait()
        if reducing:
            own += incoming

def doubling(x):
    n, rank = dist.get_world_size(), dist.get_rank()
    incoming = torch.empty_like(x)
    distance = 1
    while distance < n:
        sending = dist.isend(x, rank ^ distance)
        receiving = dist.irecv(incoming, rank ^ distance)
        sending.wait()
        receiving.wait()
        x += incoming
        distance *= 2
"""


@dataclass(frozen=True)
class Work:
    """One algorithm on so many ranks; `numel` float64 a rank, `rounds` messages one after another of `size` bytes."""

    name: str
    ranks: int
    numel: int
    rounds: int
    size: int

    @property
    def operations(self) -> int:
        return 2 * self.ranks * self.rounds

    @property
    def seconds(self) -> float:
        """Virtual time by the formula."""
        return self.rounds * (ALPHA + self.size * BETA)


def ring(ranks: int) -> Work:
    return Work("ring", ranks, 4 * ranks, 2 * (ranks - 1), 32)


def doubling(ranks: int) -> Work:
    return Work("doubling", ranks, 16, ranks.bit_length() - 1, 128)


@dataclass(frozen=True)
class Measured:
    """One run: CPU seconds, peak bytes of memory, virtual seconds."""

    cpu: float
    memory: int
    virtual: float


class Failed(Exception):  # noqa: N818 - reads as what happened
    """A run that did not come to its end, and why."""


def rank_of(engines: Engines) -> int:
    """The process in which the ranks are simulated: the last of the chain that begins with the warm process."""
    process = psutil.Process(engines.warm._process.pid)
    while below := process.children():
        process = below[0]
    return process.pid


def rankup(work: Work) -> Measured:
    """Raises Failed."""
    program = Program.of(PROGRAM, "scale.py", work.name, ("x",))
    call = Call(tuple((np.full(work.numel, float(rank)),) for rank in range(work.ranks)))
    with Engines() as engines, engines.session() as session:
        run = engines.run("sim", program, work.ranks, [call], 1, LIMITS, NETWORK, session, strictly=True, trace=False)
        if not run.finished:
            told = run.diagnoses[0].message if run.diagnoses else ""
            raise Failed(f"{run.ending} {told}")
        measured = of_process(rank_of(engines), max(run.calls[0].finish))
    expected = work.ranks * (work.ranks - 1) / 2
    for (x,) in run.calls[0].arguments:
        assert isinstance(x, Strided)
        assert (x.view() == expected).all(), "a wrong sum"
    assert math.isclose(measured.virtual, work.seconds, rel_tol=1e-9), (measured.virtual, work.seconds)
    return measured


def of_process(pid: int, virtual: float) -> Measured:
    """What a process has used so far, all its threads together."""
    times = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    peak = re.search(r"VmHWM:\s*(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert peak is not None
    return Measured(sum(map(int, times)) / os.sysconf("SC_CLK_TCK"), int(peak[1]) * 1024, virtual)


def compiled(name: str) -> Path:
    out = BUILD / f"smpi-{name}"
    subprocess.run(["smpicc", "-O2", "-o", out, HERE / "smpi" / f"{name}.c"], check=True)
    return out


def smpi(work: Work, program: Path) -> Measured:
    """Raises Failed."""
    with tempfile.TemporaryDirectory(prefix="rankup-bench-") as folder:
        platform, hosts = Path(folder, "platform.xml"), Path(folder, "hosts")
        platform.write_text(PLATFORM.format(last=work.ranks - 1, bandwidth=1 / BETA, half=ALPHA / 2))
        hosts.write_text("".join(f"rank-{rank}\n" for rank in range(work.ranks)))
        where = ("-np", str(work.ranks), "-platform", platform, "-hostfile", hosts)
        command: list[str | Path] = ["smpirun", *where, *SMPI, program, str(work.numel)]
        done = subprocess.run(
            [sys.executable, "-S", "-c", MEASURED, *command],
            capture_output=True,
            text=True,
            cwd=folder,
            env={**os.environ, "TMPDIR": folder},
        )
    told = done.stdout.split()
    if done.returncode or len(told) != 3:
        raise Failed(f"smpirun: status {done.returncode} {' '.join(told)[-200:]} {done.stderr[-200:]}")
    return Measured(float(told[1]), int(told[2]) * 1024, float(told[0]))


def measure(works: Sequence[Work], repeat: int, with_smpi: bool) -> list[dict[str, object]]:
    """Print a line for each as it comes: the medians of `repeat` runs of each side, by turns."""
    programs = {name: compiled(name) for name in {work.name for work in works}} if with_smpi else {}
    half = f"{'CPU s':>9} {'ops/s':>9} {'MiB':>7}"
    print(f"{'':27} | {'rankup':27} | {'SMPI':27} | {'of':>7} {'virtual ms':>19}")
    print(f"{'':9} {'ranks':>6} {'operations':>10} | {half} | {half} | {'SMPI':>7} {'rankup':>9} {'SMPI':>9}")
    out: list[dict[str, object]] = []
    for work in works:
        ours, theirs, why = [], [], ""
        try:
            for _ in range(repeat):
                ours.append(rankup(work))
                if with_smpi:
                    theirs.append(smpi(work, programs[work.name]))
        except Failed as failed:
            why = str(failed)
        mine, other = median(ours), median(theirs)
        ratio = mine.cpu / other.cpu if mine and other else None
        sides = f"{columns(work, mine)} | {columns(work, other)} | {f'{ratio:.2f}' if ratio else '-':>7}"
        print(
            f"{work.name:9} {work.ranks:6,} {work.operations:10,} | {sides} {virtual(mine)} {virtual(other)}",
            flush=True,
        )
        if why:
            print(f"  {why}")
        out.append(
            {**asdict(work), "operations": work.operations, "formula": work.seconds, "ratio": ratio, "failed": why}
            | {"rankup": asdict(mine) if mine else None, "smpi": asdict(other) if other else None}
        )
    return out


def median(runs: Sequence[Measured]) -> Measured | None:
    if not runs:
        return None
    return Measured(statistics.median(run.cpu for run in runs), max(run.memory for run in runs), runs[0].virtual)


def columns(work: Work, measured: Measured | None) -> str:
    if measured is None:
        return f"{'-':>9} {'-':>9} {'-':>7}"
    rate = work.operations / measured.cpu
    return f"{measured.cpu:9.2f} {rate:9,.0f} {measured.memory / 2**20:7.0f}"


def virtual(measured: Measured | None) -> str:
    return f"{measured.virtual * 1e3:9.3f}" if measured else f"{'-':>9}"


def goals(rows: Sequence[dict[str, object]]) -> list[dict[str, object]]:
    """Print and return what was to be reached, and whether it was, of what was measured."""
    out: list[dict[str, object]] = []

    def goal(text: str, value: float | None, limit: float, unit: str) -> None:
        if value is not None:
            met = value < limit
            print(f"{'met' if met else 'NOT met':8} {text}: {value:.2f}{unit}")
            out.append({"goal": text, "value": value, "limit": limit, "met": met})

    for name, ranks, factor in (("ring", 1024, 1.5), ("ring", 512, 2.5)):
        for row in rows:
            if (row["name"], row["ranks"]) == (name, ranks):
                ratio = row["ratio"]
                assert ratio is None or isinstance(ratio, float)
                goal(f"{name} on {ranks:,} ranks: below {factor:g} x SMPI's CPU time", ratio, factor, " x")
    peaks = [row["rankup"]["memory"] for row in rows if isinstance(row["rankup"], dict)]
    goal("memory below 1 GiB in every run", max(peaks) / 2**30 if peaks else None, 1.0, " GiB")
    failed = [f"{row['name']} on {row['ranks']:,}" for row in rows if row["failed"]]
    print(f"{'NOT met' if failed else 'met':8} every run finished{': not ' + ', '.join(failed) if failed else ''}")
    print("met      virtual time is rounds x (alpha + S x beta), in every run of rankup's that finished")
    return out


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--ranks", type=int, nargs="+", help="only these numbers of ranks")
    parser.add_argument("--repeat", type=int, default=1, help="runs of each; medians are printed")
    parser.add_argument("--quick", action="store_true", help="no ring on more than 256 ranks, no world above 1,024")
    given = parser.parse_args(arguments)
    rings, doublings = (64, 256) if given.quick else RING_RANKS, (1024,) if given.quick else DOUBLING_RANKS
    works = [*map(ring, rings), *map(doubling, doublings)]
    if given.ranks:
        works = [work for work in works if work.ranks in given.ranks]
        asked = {work.ranks for work in works}
        works += [ring(ranks) for ranks in given.ranks if ranks not in asked]
    BUILD.mkdir(parents=True, exist_ok=True)
    with_smpi = shutil.which("smpicc") is not None
    if not with_smpi:
        print("SMPI is not measured: there is no smpicc (Debian: apt-get install libsimgrid-dev).")
    rows = measure(works, given.repeat, with_smpi)
    print()
    data = {"alpha": ALPHA, "beta": BETA, "rows": rows, "goals": goals(rows)}
    (BUILD / "sim_scale.json").write_text(json.dumps(data, indent=1))
    if any(row["failed"] for row in rows):
        sys.exit(1)


if __name__ == "__main__":
    main()
