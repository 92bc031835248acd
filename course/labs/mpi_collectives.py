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
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from servers import MissingError, Seen, Server, Servers, main, until

MISSING = "MPI is not installed: make labs LABS=mpi sets up an environment with mpi4py and Open MPI"
RANKS, PATIENCE, ROOT = 4, 120, 2
SMALL, LARGE = 8, 4 << 20  # bytes of a message
STILL = 0.5  # seconds: a send that must wait for its receiver is looked at for so long
Told = dict[str, Any]


def numbers(rank: int) -> list[int]:
    return [10 * rank + place for place in range(RANKS)]


def on_mpi(folder: Path) -> None:
    """One rank under mpiexec."""
    import numpy as np
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    rank, told = world.rank, Told()

    def mine() -> Any:
        return np.array(numbers(rank))

    def empty(*shape: int) -> Any:
        return np.zeros(shape, dtype=int)

    x, y = mine(), empty(RANKS)
    world.Allreduce(x, y)
    told["all_reduce, sum"] = y.tolist()
    x = mine()
    world.Allreduce(MPI.IN_PLACE, x)
    told["all_reduce in place"] = x.tolist()
    x = mine()
    world.Bcast(x, ROOT)
    told["broadcast"] = x.tolist()
    x, y = mine(), empty(RANKS)
    world.Reduce(x, y, root=ROOT)
    told["reduce"] = y.tolist() if rank == ROOT else None
    told["reduce leaves"] = x.tolist()
    y = empty(RANKS, RANKS)
    world.Gather(mine(), y, root=ROOT)
    told["gather"] = y.tolist() if rank == ROOT else None
    y = empty(RANKS, RANKS)
    world.Allgather(mine(), y)
    told["all_gather"] = y.tolist()
    y = empty(1)
    world.Scatter(mine(), y, root=ROOT)
    told["scatter"] = y.tolist()
    world.Reduce_scatter_block(mine(), y)
    told["reduce_scatter"] = y.tolist()
    y = empty(RANKS)
    world.Alltoall(mine(), y)
    told["all_to_all"] = y.tolist()
    world.Scan(mine(), y)
    told["scan"] = y.tolist()

    for name in ("SUM", "PROD", "MAX", "MIN", "BAND", "BOR", "BXOR", "LAND", "LOR", "LXOR"):
        world.Allreduce(mine(), y, getattr(MPI, name))
        told[f"op {name}"] = y.tolist()
    pairs = np.array([(7 - (rank - 1) ** 2, rank)], dtype="i4,i4")  # rank 1 has the largest, 7
    largest = np.zeros_like(pairs)
    world.Allreduce([pairs, MPI.INT_INT], [largest, MPI.INT_INT], MPI.MAXLOC)
    told["op MAXLOC"] = list(map(int, largest[0]))
    told["op of ours"] = _composed(world, np, MPI)

    x, y = mine(), empty(RANKS)
    request = world.Iallreduce(x, y)
    request.Wait()
    told["non-blocking"] = y.tolist()
    told["tests"] = _left_alone(world, np)
    again = world.Allreduce_init(x, y)
    told["persistent"] = []
    for factor in (1, 2):
        x[:] = factor * mine()
        again.Start()
        again.Wait()
        told["persistent"].append(y.tolist())
    told["same buffer twice"] = _refused(lambda: world.Allreduce(x, x), MPI)
    told["send"] = [_sends(world, np.zeros(size, np.uint8), folder / f"mpi-{size}") for size in (SMALL, LARGE)]
    told["library"] = MPI.Get_library_version()
    _tell(folder, "mpi", rank, told)


def _left_alone(world: Any, np: Any) -> int:
    """A large non-blocking all_reduce, and no call of MPI's for a while: how often Test() is then called until it is
    over."""
    large, summed = np.ones(LARGE // 8), np.zeros(LARGE // 8)
    world.Barrier()
    request, tests = world.Iallreduce(large, summed), 1
    time.sleep(STILL)
    while not request.Test():
        tests += 1
    return tests


def _composed(world: Any, np: Any, mpi: Any) -> list[int]:
    """All ranks' maps x -> a x + b, one after the other: an operation of ours, for which the order of ranks matters."""

    def then(first: Any, second: Any, _datatype: Any) -> None:
        p, q = (np.frombuffer(buffer, dtype=int).reshape(-1, 2) for buffer in (first, second))
        q[:] = np.stack([p[:, 0] * q[:, 0], q[:, 0] * p[:, 1] + q[:, 1]], axis=1)

    pair = mpi.LONG.Create_contiguous(2).Commit()  # one element: no algorithm may cut it in two
    operation = mpi.Op.Create(then, commute=False)
    own, found = np.array(affine(world.rank)), np.zeros(2, dtype=int)
    world.Allreduce([own, 1, pair], [found, 1, pair], operation)
    return list(map(int, found))


def affine(rank: int) -> list[int]:
    return [rank + 2, rank]


def in_order() -> list[int]:
    """What `_composed` should be."""
    a, b = 1, 0
    for factor, more in map(affine, range(RANKS)):
        a, b = factor * a, factor * b + more
    return [a, b]


def _refused(call: Callable[[], object], mpi: Any) -> str:
    try:
        call()
    except mpi.Exception as error:
        return str(error).splitlines()[-1]  # MPICH's text has several
    return "accepted"


def _sends(world: Any, buffer: Any, flag: Path) -> bool:
    """Whether rank 0's send is over before rank 1 has called its receive, for which rank 1 waits."""
    over = False
    if world.rank == 0:
        request, since = world.Isend(buffer, 1), time.monotonic()
        while not over and time.monotonic() < since + STILL:
            over = request.Test()
        flag.write_text("now")
        request.Wait()
    elif world.rank == 1:
        until("rank 0 has looked at its send", PATIENCE, flag.exists)
        world.Recv(buffer, 0)
    return bool(world.bcast(over))


def on_gloo(folder: Path, rank: int) -> None:
    """One rank of torch.distributed."""
    from datetime import timedelta

    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo", f"file://{folder}/meeting", timedelta(seconds=PATIENCE), RANKS, rank)
    told = Told()

    def mine() -> Any:
        return torch.tensor(numbers(rank))

    def parts() -> list[Any]:
        return [torch.zeros(RANKS, dtype=torch.int64) for _ in range(RANKS)]

    x = mine()
    dist.all_reduce(x)
    told["all_reduce, sum"] = told["all_reduce in place"] = x.tolist()
    x = mine()
    dist.broadcast(x, ROOT)
    told["broadcast"] = x.tolist()
    x = mine()
    dist.reduce(x, ROOT)
    told["reduce"] = x.tolist() if rank == ROOT else None
    told["reduce leaves"] = x.tolist()
    y = parts()
    dist.gather(mine(), y if rank == ROOT else None, ROOT)
    told["gather"] = [part.tolist() for part in y] if rank == ROOT else None
    dist.all_gather(y, mine())
    told["all_gather"] = [part.tolist() for part in y]
    one = torch.zeros(1, dtype=torch.int64)
    dist.scatter(one, list(mine().split(1)) if rank == ROOT else None, ROOT)
    told["scatter"] = one.tolist()
    dist.reduce_scatter_tensor(one, mine())
    told["reduce_scatter"] = one.tolist()
    x = torch.zeros(RANKS, dtype=torch.int64)
    dist.all_to_all_single(x, mine())
    told["all_to_all"] = x.tolist()
    ops = dist.ReduceOp
    for name, op in {"SUM": ops.SUM, "PROD": ops.PRODUCT, "MAX": ops.MAX, "MIN": ops.MIN, "BAND": ops.BAND,
                     "BOR": ops.BOR, "BXOR": ops.BXOR, "AVG": ops.AVG}.items():  # fmt: skip
        x = mine().double() if name == "AVG" else mine()
        try:
            dist.all_reduce(x, op)
            told[f"op {name}"] = x.tolist()
        except (RuntimeError, ValueError) as error:
            told[f"op {name}"] = str(error).partition("\n")[0]
    x = mine()
    work = dist.all_reduce(x, async_op=True)
    work.wait()
    told["non-blocking"] = x.tolist()
    dist.barrier()
    work = dist.all_reduce(torch.ones(LARGE // 8, dtype=torch.float64), async_op=True)
    until("gloo's threads have summed", PATIENCE, work.is_completed)
    told["send"] = [_sent(dist, torch.zeros(size, dtype=torch.uint8), rank, folder / f"gloo-{size}")
                    for size in (SMALL, LARGE)]  # fmt: skip
    _tell(folder, "gloo", rank, told)
    dist.destroy_process_group()


def _sent(dist: Any, buffer: Any, rank: int, flag: Path) -> bool:
    """As `_sends`, for gloo."""
    over = False
    if rank == 0:
        sending = threading.Thread(target=dist.send, args=(buffer, 1))
        sending.start()
        sending.join(STILL)
        over = not sending.is_alive()
        flag.write_text("now")
        sending.join()
    elif rank == 1:
        until("rank 0 has looked at its send", PATIENCE, flag.exists)
        dist.recv(buffer, 0)
    dist.barrier()
    return over


def _tell(folder: Path, on: str, rank: int, told: Told) -> None:
    (folder / f"{on}-{rank}.json").write_text(json.dumps(told))


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
    here = [sys.executable, str(Path(__file__).resolve())]
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
    match sys.argv[1:]:
        case ["mpi"]:
            on_mpi(Path.cwd())
        case ["gloo", rank]:
            on_gloo(Path.cwd(), int(rank))
        case arguments:
            sys.exit(main(lab, arguments))
