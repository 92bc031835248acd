"""The collectives of chapter 06 on MPI and on gloo, from the same numbers: what is equal, and what differs.

    python mpi_collectives.py [--json]

needs mpi4py and an MPI (`make labs LABS=mpi` sets up an environment with both), and PyTorch for gloo. Four ranks, real
processes on this machine, once under `mpiexec` and once as torch.distributed starts them. Rank r has the numbers
10 r, 10 r + 1, 10 r + 2, 10 r + 3. MPI Forum: *MPI: a message-passing interface standard*, version 4.1, 2023. About
15 s.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from mpi_ranks import LARGE, PATIENCE, RANKS, ROOT, SMALL, Told, in_order, numbers
from servers import MissingError, Seen, Server, Servers, main

MISSING = "MPI is not installed: make labs LABS=mpi sets up an environment with mpi4py and Open MPI"


def launch(servers: Servers) -> tuple[list[Told], list[Told]]:
    """What the ranks tell, on MPI and on gloo. Raises MissingError."""
    beside = Path(sys.executable).with_name("mpiexec")  # that of the environment, else the machine's
    mpiexec = str(beside) if beside.exists() else shutil.which("mpiexec")
    if mpiexec is None or importlib.util.find_spec("mpi4py") is None:
        raise MissingError(MISSING)
    if importlib.util.find_spec("torch") is None:
        raise MissingError("PyTorch is not installed: make labs LABS=mpi sets up an environment that sees the course's")
    os.environ.update(TMPDIR=str(servers.folder), OMP_NUM_THREADS="1")
    os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")  # of Open MPI alone
    os.environ.update(PRTE_ALLOW_RUN_AS_ROOT="1", PRTE_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    told = subprocess.run([mpiexec, "--version"], capture_output=True, text=True, check=False).stdout
    more = ["--oversubscribe"] if "Open MPI" in told else []  # more ranks than cores
    here = [sys.executable, str(Path(__file__).resolve().with_name("mpi_ranks.py"))]
    _wait([servers.start("mpiexec", [mpiexec, *more, "-n", str(RANKS), *here, "mpi"], signal.SIGTERM)])
    _wait([servers.start(f"gloo-{rank}", [*here, "gloo", str(rank)]) for rank in range(RANKS)])
    on_one, on_other = (
        [json.loads((servers.folder / f"{on}-{rank}.json").read_text()) for rank in range(RANKS)]
        for on in ("mpi", "gloo")
    )
    return on_one, on_other


def _wait(started: list[Server]) -> None:
    for each in started:
        if each.process.wait(PATIENCE):
            raise RuntimeError(f"{each.log.stem} ended with {each.process.returncode}")


COLLECTIVES = ("all_reduce, sum", "all_reduce in place", "broadcast", "reduce", "gather", "all_gather", "scatter",
               "reduce_scatter", "all_to_all", "non-blocking")  # fmt: skip


def lab(servers: Servers, seen: Seen) -> None:
    """Raises MissingError."""
    mpi, gloo = launch(servers)
    seen.head = ("", "MPI", "gloo")
    name, number = re.match(r"(Open MPI|MPICH|\S+)[^\d]*([\d.]+)", mpi[0]["library"]).groups()
    seen.versions[name] = number
    for name in COLLECTIVES:
        seen.row(f"{name}, rank {ROOT}", shown(mpi[ROOT][name]), shown(gloo[ROOT][name]))
    same = [name for name in COLLECTIVES if all(mpi[r][name] == gloo[r][name] for r in range(RANKS))]
    seen.row("the same on all ranks", f"{len(same)} of {len(COLLECTIVES)}", "")
    tests = mpi[ROOT]["tests"]
    seen.row(
        f"non-blocking, {LARGE:,} bytes, left alone",
        f"then {tests:,} call{'s' * (tests > 1)} of Test() until it is over",
        "over without a call: gloo has threads",
    )
    seen.row("one request, started twice", "; ".join(map(shown, mpi[ROOT]["persistent"])), "there is none")
    left = [[told[0]["reduce leaves"] for told in (mpi, gloo)], numbers(0)]
    seen.row("after reduce, rank 0's own tensor", *(shown(each) for each in left[0]))
    seen.row("scan (the sum up to this rank), rank 2", shown(mpi[ROOT]["scan"]), "there is none")
    for op in ("PROD", "MAX", "MIN", "BAND", "BOR", "BXOR", "LAND", "LOR", "LXOR", "AVG"):
        told = [on[ROOT].get(f"op {op}", "there is none") for on in (mpi, gloo)]
        seen.row(f"all_reduce, {op}", *(shown(each) for each in told))
    value, place = mpi[0]["op MAXLOC"]
    seen.row("all_reduce, MAXLOC", f"{value}, on rank {place}", "there is none")
    composed = mpi[0]["op of ours"]
    ordered = "in the order of ranks" if composed == in_order() else f"not {in_order()}"
    seen.row("all_reduce, an operation of ours", f"{shown(composed)}, {ordered}", "there is none")
    seen.row("all_reduce, one buffer as both", mpi[0]["same buffer twice"], "always in place")
    for place, size in enumerate((SMALL, LARGE)):
        over = ["over" if told[0]["send"][place] else "waits" for told in (mpi, gloo)]
        seen.row(f"send of {size:,} bytes, no receive yet", *over)
    doubled = [2 * value for value in mpi[0]["all_reduce, sum"]]
    ops = [[name for name in told[0] if name.startswith("op ") and isinstance(told[0][name], list)]
           for told in (mpi, gloo)]  # fmt: skip
    seen.figures.update(
        collectives=len(COLLECTIVES), same=len(same), mpi_kept=int(left[0][0] == left[1]),
        gloo_kept=int(left[0][1] == left[1]), mpi_ops=len(ops[0]), gloo_ops=len(ops[1]),
        same_ops=sum(mpi[0][name] == gloo[0].get(name) for name in ops[0]), ordered=int(composed == in_order()),
        tests=tests, persistent=int(mpi[0]["persistent"] == [mpi[0]["all_reduce, sum"], doubled]),
        mpi_small=int(mpi[0]["send"][0]), mpi_large=int(mpi[0]["send"][1]),
        gloo_small=int(gloo[0]["send"][0]), gloo_large=int(gloo[0]["send"][1]), twice=mpi[0]["same buffer twice"],
    )  # fmt: skip


def shown(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


if __name__ == "__main__":
    sys.exit(main(lab, sys.argv[1:]))
