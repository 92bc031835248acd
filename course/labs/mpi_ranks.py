"""What a rank of the lab on MPI runs, on MPI and on gloo: mpi_collectives starts four of each, and compares."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from servers import until

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


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["mpi"]:
            on_mpi(Path.cwd())
        case ["gloo", rank]:
            on_gloo(Path.cwd(), int(rank))
