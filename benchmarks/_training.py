"""The training exercises' reference solutions next to torch's own: the same steps, in seconds and in bytes."""

from __future__ import annotations

import json
import logging
import os
import re
import time
import types
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import _large
import _pairs
import torch
import torch.distributed as dist
from _pairs import Side

from grader.sandbox import netlink

RANKS = (2, 4)
SAME, MOVED = 1e-5, 1e-3
COUNTED = 5  # steps whose bytes are counted
LIMIT = 1.3


@dataclass(frozen=True)
class Pair:
    """What is measured: a name, its notebook, the library's name, and what makes the two sides of the notebook's code.
    Where both do the same in another way (`same` is false), no goal is held against the ratios."""

    function: str
    notebook: str
    library: str
    make: Callable[[Any], tuple[Side, Side]]
    same: bool = True


_ZB = "ScheduleInterleavedZeroBubble"
PAIRS = (
    Pair("ddp", "ddp", "DistributedDataParallel", _pairs.ddp),
    Pair("zero_optimizer", "zero_optimizer", "ZeroRedundancyOptimizer", _pairs.zero),
    Pair("fsdp", "fsdp", "fully_shard", _pairs.fsdp),
    Pair("tensor_parallel", "tensor_parallel", "parallelize_module", _pairs.tensor_parallel),
    Pair("run_gpipe", "pipeline", "ScheduleGPipe", _pairs.pipeline("run_gpipe", "ScheduleGPipe")),
    Pair("run_1f1b", "pipeline", "Schedule1F1B", _pairs.pipeline("run_1f1b", "Schedule1F1B")),
    Pair("run_zb_h1", "zero_bubble", _ZB, _pairs.pipeline("run_zb_h1", _ZB, split=True)),
    Pair("expert_parallel", "expert_parallel", "all_to_all and grouped_mm", _large.expert_parallel),
    Pair("ring_attention", "ring_attention", "context_parallel's own loops", _large.against_torch_ring),
    Pair("ring_attention", "ring_attention", "all_gather, then attention", _large.against_all_gather, same=False),
    Pair("mesh_transformer", "mesh_transformer", "DistributedDataParallel", _large.mesh_transformer, same=False),
)


def loaded(name: str, source: str) -> types.ModuleType:
    module = types.ModuleType(name)
    exec(compile(source, f"{name}.ipynb", "exec"), module.__dict__)
    return module


def timed(work: Callable[[], Any]) -> float:
    dist.barrier()
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def by_turns(ours: Callable[[], Any], theirs: Callable[[], Any], calls: int) -> tuple[float, float]:
    """Median seconds of a call, of its slowest rank each time, after two calls that warm up."""
    pair, times = (ours, theirs), []
    for number in range(-2, calls):
        turn = [0, 1] if number % 2 else [1, 0]
        took = {side: timed(pair[side]) for side in turn}
        if number >= 0:
            times.append([took[0], took[1]])
    slowest = torch.tensor(times, dtype=torch.float64)
    dist.all_reduce(slowest, dist.ReduceOp.MAX)
    mine, other = slowest.median(0).values.tolist()
    return mine, other


def _received() -> int:
    """Bytes that came over the TCP connections that this process has now, as the kernel counted them."""
    links = [os.readlink(entry.path) for entry in os.scandir("/proc/self/fd") if os.path.islink(entry.path)]
    own = {int(found[1]) for link in links if (found := re.fullmatch(r"socket:\[(\d+)\]", link))}
    return sum(each.bytes_received for each in netlink.sockets() if each.inode in own)


def _moved(step: Callable[[], Any], steps: int) -> int:
    """Bytes that so many steps moved, and two barriers, on all ranks together."""
    dist.barrier()
    before = _received()
    dist.barrier()
    for _ in range(steps):
        step()
    dist.barrier()
    moved = torch.tensor([_received() - before])
    dist.all_reduce(moved)
    return int(moved)


def bytes_a_step(step: Callable[[], Any]) -> float:
    return (_moved(step, COUNTED) - _moved(step, 0)) / COUNTED


def _compare(name: str, ours: Side, theirs: Side) -> None:
    """Two steps: the losses and the parameters must be the same, and others than at first."""
    first = [parameter.detach().clone() for parameter in ours.parameters()]
    for number in (1, 2):
        losses = ours.step(), theirs.step()
        assert losses[0] == losses[1] or abs(losses[0] - losses[1]) < SAME * abs(losses[1]), (
            f"{name}, {number}: {losses}"
        )
    pairs = list(zip(first, ours.parameters(), theirs.parameters(), strict=True))
    assert all(torch.allclose(mine, other, rtol=0, atol=SAME) for _, mine, other in pairs), f"{name}: other parameters"
    assert any((mine - before).abs().max() > MOVED for before, mine, _ in pairs), f"{name}: nothing was trained"


def rank_main(rank: int, folder: str, ranks: int, code: Mapping[str, str], calls: int) -> None:
    warnings.simplefilter("ignore", FutureWarning)  # torch has new names for what the notebooks call
    logging.getLogger("torch.distributed.tensor").setLevel(logging.ERROR)  # how it gathers what is compared is no news
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=ranks)
    rows = []
    for pair in (pair for pair in PAIRS if pair.function in code):
        name, library = pair.function, pair.library
        ours, theirs = pair.make(loaded(name, code[name]))
        _compare(f"{name} and {library}", ours, theirs)
        mine, other = by_turns(ours.step, theirs.step, calls)
        sent, others = bytes_a_step(ours.step), bytes_a_step(theirs.step)
        row = {"function": name, "library": library, "ranks": ranks, "calls": calls, "same": pair.same}
        row |= {"ours": mine, "theirs": other, "ratio": mine / other}
        rows.append(row | {"our_bytes": sent, "their_bytes": others, "bytes_ratio": sent / others})
        if rank == 0:
            print(
                f"{name:16} {library:29} {ranks:5} {mine * 1e3:9.2f} {other * 1e3:9.2f} {mine / other:7.2f} "
                f"{sent / 1e6:9.3f} {others / 1e6:9.3f} {sent / others:7.3f}",
                flush=True,
            )
    if rank == 0:
        Path(folder, "rows.json").write_text(json.dumps(rows))
    dist.barrier()
    dist.destroy_process_group()
