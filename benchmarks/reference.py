"""The reference solutions next to the library's own collectives: four real ranks on this machine, 1 KB to 64 MB.

    python benchmarks/reference.py [--quick] [--repeat N] [--functions ring_all_reduce ...]

A reference solution is what the notebooks in solutions/ teach, in Python over gloo's send and receive. The library's
own is gloo's collective, in C++. Both run in the same processes by turns, behind a barrier each; the time of a call is
that of its slowest rank, and medians are printed. A size is that of the whole tensor: chunks are a fourth of it.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
import types
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from grader import submission

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "bench"
RANKS = 4
SIZES = tuple(2**power for power in (10, 13, 16, 18, 20, 22, 24, 26))
QUICK_SIZES = (2**10, 2**16, 2**20)
MOST_REPEATED_BYTES = 2**28  # the large ones are called less often: so many bytes a function and size, but 5 times

Pair = tuple[Callable[[], Any], Callable[[], Any]]  # ours, the library's; each returns what to compare


def sources() -> dict[str, str]:
    """By function, the source of the solution cells that define it."""
    found = {}
    for function in FUNCTIONS:
        for notebook in sorted(ROOT.glob("solutions/*/*.ipynb")):
            source = submission.read(notebook, (function,)).source
            if f"\ndef {function}(" in source:
                found[function] = source
    return found


def _in_place(ours: Any, library: Any) -> Callable[[Any, int], Pair]:
    """For functions that change their tensor: each works on one of its own."""

    def make(module: Any, numel: int) -> Pair:
        mine = torch.arange(numel, dtype=torch.float32).remainder_(7) + dist.get_rank()
        other = mine.clone()
        return lambda: ours(module, mine) or mine, lambda: library(other) and other

    return make


def _of_tensor(name: str, library: Any) -> Callable[[Any, int], Pair]:
    """For functions of one chunk."""

    def make(module: Any, numel: int) -> Pair:
        chunk = torch.arange(numel // RANKS, dtype=torch.float32) + dist.get_rank()
        return lambda: getattr(module, name)(chunk), lambda: library(chunk)

    return make


def _of_chunks(name: str, library: Any) -> Callable[[Any, int], Pair]:
    """For functions of a list of chunks."""

    def make(module: Any, numel: int) -> Pair:
        chunks = list((torch.arange(numel, dtype=torch.float32) + dist.get_rank()).chunk(RANKS))
        return lambda: getattr(module, name)(chunks), lambda: library(chunks)

    return make


def _all_gather(chunk: torch.Tensor) -> list[torch.Tensor]:
    parts = [torch.empty_like(chunk) for _ in range(RANKS)]
    dist.all_gather(parts, chunk)
    return parts


def _reduce_scatter(chunks: list[torch.Tensor]) -> torch.Tensor:
    total = torch.empty_like(chunks[0])
    dist.reduce_scatter(total, chunks)
    return total


def _all_to_all(chunks: list[torch.Tensor]) -> list[torch.Tensor]:
    parts = [torch.empty_like(chunk) for chunk in chunks]
    dist.all_to_all(parts, chunks)
    return parts


def _waited(start: Callable[[torch.Tensor], Any]) -> Callable[[torch.Tensor], bool]:
    return lambda tensor: bool(start(tensor).wait())


_sum = _waited(lambda tensor: dist.all_reduce(tensor, async_op=True))
FUNCTIONS: dict[str, tuple[str, Callable[[Any, int], Pair]]] = {
    "ring_all_reduce": ("all_reduce", _in_place(lambda module, tensor: module.ring_all_reduce(tensor), _sum)),
    "broadcast": (
        "broadcast",
        _in_place(
            lambda module, tensor: module.broadcast(tensor, 0),
            _waited(lambda tensor: dist.broadcast(tensor, 0, async_op=True)),
        ),
    ),
    "all_gather": ("all_gather", _of_tensor("all_gather", _all_gather)),
    "reduce_scatter": ("reduce_scatter", _of_chunks("reduce_scatter", _reduce_scatter)),
    "all_to_all": ("all_to_all", _of_chunks("all_to_all", _all_to_all)),
}


def same(mine: Any, other: Any) -> bool:
    if isinstance(mine, torch.Tensor):
        return bool(torch.allclose(mine, other))
    return bool(len(mine) == len(other)) and all(same(*pair) for pair in zip(mine, other, strict=True))


def timed(work: Callable[[], Any]) -> float:
    dist.barrier()
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def rank_main(rank: int, folder: str, code: dict[str, str], sizes: Sequence[int], repeat: int) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=RANKS)
    rows = []
    for function, source in code.items():
        module = types.ModuleType(function)
        exec(compile(source, f"{function}.ipynb", "exec"), module.__dict__)
        library, make = FUNCTIONS[function]
        for size in sizes:
            pair = make(module, size // 4)
            assert same(*(work() for work in pair)), f"{function} of {size} bytes is not what {library} gives"
            times = []
            for number in range(-2, max(5, min(repeat, MOST_REPEATED_BYTES // size))):
                turn = [0, 1] if number % 2 else [1, 0]
                took = {side: timed(pair[side]) for side in turn}
                if number >= 0:  # the first two warm up
                    times.append([took[0], took[1]])
            slowest = torch.tensor(times, dtype=torch.float64)
            dist.all_reduce(slowest, dist.ReduceOp.MAX)
            ours, theirs = slowest.median(0).values.tolist()
            rows.append({"function": function, "library": library, "bytes": size, "calls": len(times)})
            rows[-1] |= {"ours": ours, "theirs": theirs, "ratio": ours / theirs}
            if rank == 0:
                print(
                    f"{function:16} {library:15} {amount(size):>7} {ours * 1e3:10.3f} {theirs * 1e3:10.3f} "
                    f"{ours / theirs:7.2f}",
                    flush=True,
                )
    if rank == 0:
        Path(folder, "rows.json").write_text(json.dumps(rows))
    dist.barrier()
    dist.destroy_process_group()


def amount(size: int) -> str:
    return f"{size >> 20} MB" if size >= 2**20 else f"{size >> 10} KB"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--repeat", type=int, default=30, help="calls of each; fewer of large ones")
    parser.add_argument("--quick", action="store_true", help="three sizes, up to 1 MB")
    parser.add_argument("--functions", nargs="+", choices=list(FUNCTIONS), default=list(FUNCTIONS))
    given = parser.parse_args(arguments)
    code = {function: source for function, source in sources().items() if function in given.functions}
    os.environ.update(GLOO_SOCKET_IFNAME="lo", OMP_NUM_THREADS="1")
    print(f"{RANKS} ranks on {len(os.sched_getaffinity(0))} processors, milliseconds a call")
    print(f"{'ours':16} {'gloo':15} {'size':>7} {'ours':>10} {'gloo':>10} {'of gloo':>7}", flush=True)
    with tempfile.TemporaryDirectory(prefix="rankup-bench-") as folder:
        sizes = QUICK_SIZES if given.quick else SIZES
        mp.spawn(rank_main, (folder, code, sizes, given.repeat), nprocs=RANKS)
        rows = json.loads(Path(folder, "rows.json").read_text())
    BUILD.mkdir(parents=True, exist_ok=True)
    (BUILD / "reference.json").write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
