"""The reference of quantized_all_reduce next to what torch has for sums in fewer bytes, its DDP communication hooks:
time, bytes and error of the same sum.

The hooks are called with a bucket as DDP would give them. They return a mean, which is multiplied by the number of
ranks. The one that quantizes wants futures that hold a list of a list of tensors: gloo's hold the tensors, and are
wrapped. Its sibling with a scale a channel is left out: it indexes that list as a tensor, and fails. Ours is first held
to the sum in float64.
"""

from __future__ import annotations

import json
import types
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from _training import by_turns, bytes_a_step, loaded
from torch import Tensor
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, quantization_hooks

QUANTIZED = "quantized_all_reduce"
BLOCK = 64
LAYER = 4096  # elements, all of one magnitude
FAR = 0.2  # of a layer's sum: an error that no format here has where its scale fits


def values(rank: int, numel: int) -> Tensor:
    """Normal numbers, like gradients of layers whose magnitudes differ by a factor of up to 1000."""
    magnitudes = torch.logspace(-3, 0, -(-numel // LAYER))
    drawn = torch.randn(numel, generator=torch.Generator().manual_seed(rank))
    return drawn * magnitudes.repeat_interleave(LAYER)[:numel]


def error(got: Tensor, total: Tensor) -> float:
    """The greatest root mean square error of a layer, of that of the layer's sum."""
    pairs = zip(got.double().split(LAYER), total.split(LAYER), strict=True)
    return max(float((mine - right).norm() / right.norm()) for mine, right in pairs)


def _all_reduce(tensor: Tensor) -> Tensor:
    dist.all_reduce(tensor)
    return tensor


def _hook(hook: Callable[..., Any]) -> Callable[[Tensor], Tensor]:
    """A hook as a sum over ranks."""

    def summed(tensor: Tensor) -> Tensor:
        bucket = types.SimpleNamespace(buffer=lambda: tensor)
        found = hook(dist.group.WORLD, bucket).wait()
        return found.mul_(dist.get_world_size())  # type: ignore[no-any-return]

    return summed


def _gathered(outputs: list[Tensor], tensor: Tensor, group: Any, async_op: bool) -> Any:
    """dist.all_gather with a future as the hook wants it."""
    future = dist.all_gather(outputs, tensor, group=group, async_op=async_op).get_future()
    return types.SimpleNamespace(get_future=lambda: future.then(lambda done: [done.value()]))


quantization_hooks.dist = types.SimpleNamespace(all_gather=_gathered, get_rank=dist.get_rank)
LIBRARY: dict[str, Callable[[Tensor], Tensor]] = {
    "all_reduce": _all_reduce,
    "fp16_compress_hook": _hook(default_hooks.fp16_compress_hook),
    "quantization_pertensor": _hook(quantization_hooks.quantization_pertensor_hook),
}


def rank_main(rank: int, folder: str, ranks: int, code: Mapping[str, str], sizes: Sequence[int], calls: int) -> None:
    warnings.simplefilter("ignore")  # torch has new names for what its own hooks call
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=ranks)
    module = loaded(QUANTIZED, code[QUANTIZED])
    rows = []
    for size in sizes:
        given = values(rank, size // 4)
        total = torch.stack([values(each, size // 4).double() for each in range(ranks)]).sum(0)

        def ours(given: Tensor = given) -> Tensor:
            tensor = given.clone()
            module.quantized_all_reduce(tensor, BLOCK)
            return tensor

        known = error(ours(), total)
        assert known < FAR, f"{QUANTIZED} of {size} bytes is not the sum"
        for name, library in LIBRARY.items():

            def theirs(library: Callable[[Tensor], Tensor] = library, given: Tensor = given) -> Tensor:
                return library(given.clone())

            off = error(theirs(), total)
            mine, other = by_turns(ours, theirs, calls)
            sent, others = bytes_a_step(ours), bytes_a_step(theirs)
            row = {"function": QUANTIZED, "library": name, "ranks": ranks, "bytes": size, "calls": calls}
            row |= {"ours": mine, "theirs": other, "ratio": mine / other, "our_error": known, "their_error": off}
            rows.append(row | {"our_bytes": sent, "their_bytes": others, "bytes_ratio": sent / others})
            if rank == 0:
                print(
                    f"{name:22} {ranks:5} {size / 1e6:7.2f} {mine * 1e3:9.2f} {other * 1e3:9.2f} {mine / other:7.2f} "
                    f"{sent / 1e6:9.3f} {others / 1e6:9.3f} {sent / others:7.3f} {known:9.4f} {off:9.4f}",
                    flush=True,
                )
    if rank == 0:
        Path(folder, "rows.json").write_text(json.dumps(rows))
    dist.barrier()
    dist.destroy_process_group()
