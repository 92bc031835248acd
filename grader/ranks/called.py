"""What a call of a process group's method brings: which collective it is, its tensors, its bytes, its reduction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

from grader.ranks.program import nested
from grader.trace.events import DTYPE_SHIFT, DTYPES, REDUCTION_SHIFT, REDUCTIONS

COLLECTIVES = {
    "allreduce": "all_reduce",
    "allreduce_coalesced": "all_reduce_coalesced",
    "broadcast": "broadcast",
    "reduce": "reduce",
    "allgather": "all_gather",
    "_allgather_base": "all_gather_into_tensor",
    "all_gather_single": "all_gather_into_tensor",
    "all_gather_single_coalesced": "all_gather_into_tensor",
    "allgather_into_tensor_coalesced": "all_gather_into_tensor",
    "allgather_coalesced": "all_gather_coalesced",
    "gather": "gather",
    "scatter": "scatter",
    "reduce_scatter": "reduce_scatter",
    "_reduce_scatter_base": "reduce_scatter_tensor",
    "reduce_scatter_single": "reduce_scatter_tensor",
    "reduce_scatter_single_coalesced": "reduce_scatter_tensor",
    "reduce_scatter_tensor_coalesced": "reduce_scatter_tensor",
    "alltoall": "all_to_all",
    "alltoall_base": "all_to_all_single",
    "all_to_all_single": "all_to_all_single",
    "barrier": "barrier",
    "monitored_barrier": "monitored_barrier",
}

_DTYPE_CODES = {getattr(torch, name): code << DTYPE_SHIFT for code, name in enumerate(DTYPES) if name}
_REDUCTION_CODES = {name: code << REDUCTION_SHIFT for code, name in enumerate(REDUCTIONS)}


def info_of(dtype: torch.dtype, reduction: str | None = None) -> int:
    """What the trace keeps of an operation's data type and reduction."""
    return _DTYPE_CODES.get(dtype, 0) | _REDUCTION_CODES.get(reduction or "", 0)


class Uses(NamedTuple):
    """The tensors that an operation fills, and those that it reads."""

    fills: Sequence[torch.Tensor]
    brings: Sequence[torch.Tensor]


@dataclass(frozen=True)
class Called:
    """What one rank brings to a collective: `size` bytes, the root's rank in the group (-1: none), and `info`.

    `tensors` are its arguments, each a list of tensors, without empty ones.
    """

    name: str
    size: int
    root: int
    info: int
    tensors: Sequence[Sequence[torch.Tensor]]

    def uses(self, is_root: bool) -> Uses:
        """What it fills and reads, on the root or elsewhere."""
        first: Sequence[torch.Tensor] = self.tensors[0] if self.tensors else ()
        if self.name.startswith(_OUTPUT_FIRST):
            if len(self.tensors) > 1:
                return Uses(first, self.tensors[1])
            return Uses(first, ()) if self.name == "scatter" else Uses((), first)
        if self.name == "broadcast":
            return Uses((), first) if is_root else Uses(first, ())
        return Uses((), first) if self.name == "reduce" and not is_root else Uses(first, first)


def _dense(tensor: torch.Tensor) -> Sequence[torch.Tensor]:
    """The memory of a tensor: a sparse one, which gloo can reduce, has values and indices."""
    return (tensor._values(), tensor._indices()) if tensor.is_sparse else (tensor,)


_SIZED_BY_OUTPUT = ("scatter",)
_OUTPUT_FIRST = ("all_gather", "gather", "scatter", "reduce_scatter", "all_to_all")


def called(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Called:
    """Read it off the arguments of a process group's method, whichever way they were given."""
    given = [*args, *kwargs.values()]
    tensors = [
        found for arg in given if (found := [part for each in nested(arg, torch.Tensor) for part in _dense(each)])
    ]
    brings = tensors[0] if tensors else []
    if name.startswith(_OUTPUT_FIRST) and name not in _SIZED_BY_OUTPUT and len(tensors) > 1:
        brings = tensors[1]
    elif name == "gather" and tensors:
        brings = tensors[-1]
    options = next((arg for arg in given if hasattr(arg, "rootRank") or hasattr(arg, "reduceOp")), None)
    reduction = getattr(options, "reduceOp", None)
    told = "" if reduction is None else next((n for n in REDUCTIONS[1:] if reduction == getattr(dist.ReduceOp, n)), "")
    info = info_of(brings[0].dtype, told) if brings else 0
    return Called(name, sum(tensor.nbytes for tensor in brings), getattr(options, "rootRank", -1), info, tensors)
