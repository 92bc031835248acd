"""The reference solutions next to the library's own, on real ranks of this machine: collectives on four of them, 1 KB
to 64 MB, and training steps on two and on four.

    python benchmarks/reference.py [--quick] [--repeat N] [--functions ring_all_reduce ddp ...]

A reference solution is what the notebooks in solutions/ teach, in Python over gloo's send and receive. The library's
own is gloo's collective, in C++. Both run in the same processes by turns, behind a barrier each; the time of a call is
that of its slowest rank, and medians are printed. A size is that of the whole tensor: chunks are a fourth of it.

A training step is one of a model of 8 MB, with its optimizer's step; of zero_optimizer it is the optimizer's alone. The
two sides must have the same losses and parameters after two steps. Bytes are those of a step that arrived over the
ranks' own TCP connections, of all ranks together, as the kernel counted them. The other training exercises have no
counterpart: gradient_accumulation trains torch's DistributedDataParallel, and torch compresses no gradients by top k.
The exercises on large models are next to the same written with what torch has (_large says how).

quantized_all_reduce is next to gloo's sum of float32, and to torch's hooks that send fewer bytes, with the error of
each: that of the layer in which it is largest, relative to the layer's sum.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from _common import ROOT, goal, save
from _quantized import QUANTIZED
from _quantized import rank_main as quantized_rank_main
from _training import LIMIT, PAIRS, by_turns, loaded
from _training import RANKS as WORLDS
from _training import rank_main as training_rank_main

from grader import registry, submission

RANKS = 4
SIZES = tuple(2**power for power in (10, 13, 16, 18, 20, 22, 24, 26))
QUICK_SIZES, QUICK_STEPS = (2**10, 2**16, 2**20), 5
QUANTIZED_SIZES = (2**18, 2**22, 2**24)
MOST_REPEATED_BYTES = 2**28  # the large ones are called less often: so many bytes a function and size, but 5 times

Pair = tuple[Callable[[], Any], Callable[[], Any]]  # ours, the library's; each returns what to compare


def sources() -> dict[str, str]:
    """By function, the source of the solution cells that define it; of what is trained, by its name."""
    found = {}
    for function in (*FUNCTIONS, QUANTIZED):
        for notebook in sorted(ROOT.glob("solutions/*/*.ipynb")):
            source = submission.read(notebook, (function,)).source
            if f"\ndef {function}(" in source:
                found[function] = source
    for pair in PAIRS:
        (notebook,) = ROOT.glob(f"solutions/*/{pair.notebook}.ipynb")
        found[pair.function] = submission.read(notebook, registry.find(pair.notebook).function_names).source
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


def rank_main(rank: int, folder: str, code: dict[str, str], sizes: Sequence[int], repeat: int) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=RANKS)
    rows = []
    for function, source in code.items():
        module = loaded(function, source)
        library, make = FUNCTIONS[function]
        for size in sizes:
            pair = make(module, size // 4)
            assert same(*(work() for work in pair)), f"{function} of {size} bytes is not what {library} gives"
            calls = max(5, min(repeat, MOST_REPEATED_BYTES // size))
            ours, theirs = by_turns(*pair, calls)
            rows.append({"function": function, "library": library, "bytes": size, "calls": calls})
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


def spawned(main: Callable[..., None], ranks: int, *arguments: Any) -> list[dict[str, Any]]:
    """The rows that the ranks of one world found; their main function has a folder of its own to work in."""
    with tempfile.TemporaryDirectory(prefix="rankup-bench-") as folder:
        mp.spawn(main, (folder, *arguments), nprocs=ranks)
        rows: list[dict[str, Any]] = json.loads(Path(folder, "rows.json").read_text())
    return rows


def collectives(code: Mapping[str, str], sizes: Sequence[int], repeat: int) -> list[dict[str, Any]]:
    print(f"{RANKS} ranks on {len(os.sched_getaffinity(0))} processors, milliseconds a call")
    print(f"{'ours':16} {'gloo':15} {'size':>7} {'ours':>10} {'gloo':>10} {'of gloo':>7}", flush=True)
    return spawned(rank_main, RANKS, code, sizes, repeat)


def training(code: Mapping[str, str], calls: int) -> dict[str, list[dict[str, Any]]]:
    print(f"training on {len(os.sched_getaffinity(0))} processors, milliseconds and MB of all ranks a step")
    print(
        f"{'ours':16} {'torch':29} {'ranks':>5} {'ours ms':>9} {'torch ms':>9} {'ratio':>7} {'ours MB':>9} "
        f"{'torch MB':>9} {'ratio':>7}",
        flush=True,
    )
    rows = [row for ranks in WORLDS for row in spawned(training_rank_main, ranks, ranks, code, calls)]
    goals = []
    for what, key in (("slower", "ratio"), ("more bytes", "bytes_ratio")):
        held = [row for row in rows if row["same"]]
        if not held:
            continue
        worst = max(held, key=lambda row: float(row[key]))
        where = f"{worst['function']} on {worst['ranks']} ranks"
        goals.append(goal(f"nothing {what} than {LIMIT:g}x, most is {where}", worst[key], LIMIT, "x"))
    return {"training": rows, "goals": goals}


def quantized(code: Mapping[str, str], sizes: Sequence[int], calls: int) -> list[dict[str, Any]]:
    print(f"{QUANTIZED} on {len(os.sched_getaffinity(0))} processors, milliseconds and MB of all ranks a call")
    print(
        f"{'torch':22} {'ranks':>5} {'MB':>7} {'ours ms':>9} {'torch ms':>9} {'ratio':>7} {'ours MB':>9} "
        f"{'torch MB':>9} {'ratio':>7} {'our error':>9} {'theirs':>9}",
        flush=True,
    )
    return [row for ranks in WORLDS for row in spawned(quantized_rank_main, ranks, ranks, code, sizes, calls)]


def main(arguments: Sequence[str] | None = None) -> None:
    trains = tuple(dict.fromkeys(pair.function for pair in PAIRS))
    names = [*FUNCTIONS, *trains, QUANTIZED]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--repeat", type=int, default=30, help="calls of each; fewer of large ones")
    parser.add_argument("--quick", action="store_true", help="three sizes, up to 1 MB, and five steps")
    parser.add_argument("--functions", nargs="+", choices=names, default=names)
    given = parser.parse_args(arguments)
    code = {name: source for name, source in sources().items() if name in given.functions}
    os.environ.update(GLOO_SOCKET_IFNAME="lo", OMP_NUM_THREADS="1")
    found: dict[str, list[dict[str, Any]]] = {}
    if chosen := {name: source for name, source in code.items() if name in FUNCTIONS}:
        found["collectives"] = collectives(chosen, QUICK_SIZES if given.quick else SIZES, given.repeat)
    if chosen := {name: source for name, source in code.items() if name in trains}:
        found |= training(chosen, QUICK_STEPS if given.quick else given.repeat)
    if QUANTIZED in code:
        sizes = QUANTIZED_SIZES[:2] if given.quick else QUANTIZED_SIZES
        found["quantized"] = quantized(code, sizes, QUICK_STEPS if given.quick else given.repeat)
    save("reference", found)


if __name__ == "__main__":
    main()
