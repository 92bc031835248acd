"""What collectives do with data: every rank's part of one, and what each gets out of it.

Inputs are taken when a rank joins and outputs filled when it waits. Sums are made in rank order, whoever came first.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist

from grader.ranks.called import info_of
from grader.ranks.sim.operations import Meeting

Tensors = Sequence[torch.Tensor]
IN_MEMORY_ORDER = ("all_reduce", "broadcast", "reduce")  # of dense tensors, which need not be contiguous
_GLOO_TYPES = {
    torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.bool, torch.uint8, torch.int8, torch.int32,
    torch.int64,
}  # fmt: skip


def same_bytes(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors of one shape and type hold the same bytes: NaN is equal to itself."""
    if torch.equal(a, b):
        return True
    if not (a.is_floating_point() or a.is_complex()):
        return False
    return bool(
        torch.equal(a.contiguous().view(-1).view(torch.uint8), b.detach().contiguous().view(-1).view(torch.uint8))
    )


def is_dense(tensor: torch.Tensor) -> bool:
    """Whether a tensor's elements lie in memory without gaps, in whatever order."""
    if tensor.is_contiguous():
        return True
    expected = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True


def flat(tensor: torch.Tensor) -> torch.Tensor:
    """A dense tensor's elements in the order in which they lie in memory, as an alias."""
    return tensor.detach().as_strided((tensor.numel(),), (1,))


class Part:
    """One rank's part of a collective.

    `inputs` are what it brings, `outputs` what it gets filled (empty where it gets nothing), `root` the root's rank in
    the group (-1: none), `splits` the elements it sends to each rank and `takes` those it expects from each, `waited`
    whether the call waits by itself. `order` is that of the tensors' elements in memory, by their strides; None where
    they are contiguous. `known` says whether gloo's collectives know the type of its tensors: of float8 and 16-bit
    integers they do not, its messages know all.
    """

    __slots__ = (
        "agree", "given", "info", "inputs", "known", "name", "order", "outputs", "reduction", "root", "size", "splits",
        "takes",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        inputs: Tensors,
        outputs: Tensors,
        root: int = -1,
        reduction: Any = None,
        splits: Sequence[int] = (),
        takes: Sequence[int] = (),
        size: int | None = None,
        waited: bool = False,
        order: Sequence[tuple[int, ...]] | None = None,
    ) -> None:
        self.name, self.outputs, self.root, self.reduction, self.splits = name, outputs, root, reduction, splits
        self.takes = takes
        self.inputs = [tensor.detach().clone(memory_format=torch.contiguous_format) for tensor in inputs]
        self.given: Tensors = () if waited else inputs
        self.order = order
        self.size = sum(tensor.nbytes for tensor in inputs) if size is None else size
        first = next(iter(inputs), None) if inputs else next(iter(outputs), None)
        self.info = info_of(first.dtype, reduction) if first is not None else 0
        self.known = first is None or first.dtype in _GLOO_TYPES
        self.agree = root, self.info, None if name.startswith("all_to_all") else self.size

    def unchanged(self) -> bool:
        """Whether what it brought is still what it was when it joined."""
        given, self.given = self.given, ()
        return all(same_bytes(mine, now) for mine, now in zip(self.inputs, given, strict=False))


_REDUCTIONS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "SUM": torch.Tensor.add_,
    "PRODUCT": torch.Tensor.mul_,
    "MIN": lambda a, b: a.copy_(torch.minimum(a, b)),
    "MAX": lambda a, b: a.copy_(torch.maximum(a, b)),
    "BAND": torch.Tensor.bitwise_and_,
    "BOR": torch.Tensor.bitwise_or_,
    "BXOR": torch.Tensor.bitwise_xor_,
    "AVG": torch.Tensor.add_,
}


@functools.cache
def _operations() -> list[tuple[Any, str]]:
    return [(getattr(dist.ReduceOp, name), name) for name in _REDUCTIONS]


def reduction_name(reduction: Any) -> str:
    """ "SUM" for ReduceOp.SUM. Raises RuntimeError for what gloo cannot do."""
    for operation, name in _operations():
        if reduction == operation:
            return name
    raise RuntimeError(f"Cannot use {reduction} with Gloo")


def reduced(tensors: Sequence[torch.Tensor], reduction: str) -> torch.Tensor:
    """The tensors of all ranks combined, in rank order. The average of integers is left undivided: see `deliver`."""
    total = tensors[0].reshape(-1).clone()
    if total.dtype == torch.bool and reduction in ("SUM", "PRODUCT"):
        reduction = "BOR" if reduction == "SUM" else "BAND"
    for tensor in tensors[1:]:
        _REDUCTIONS[reduction](total, tensor.reshape(-1))
    if reduction == "AVG" and total.is_floating_point():
        return total.div_(len(tensors))
    return total


def deliver(meeting: Meeting, rank: int) -> None:
    """Fill the outputs of `rank`'s part.

    gloo averages by dividing the sum in place, which torch refuses for integers, on every rank: also on those that
    get nothing of a `reduce`. The tensors of an all-reduce then hold the sum; what a reduce-scatter leaves is open.
    """
    ranks = meeting.group.ranks
    parts = [meeting.ops[r].payload for r in ranks]
    me = ranks.index(rank)
    mine: Part = parts[me]
    outputs = mine.outputs
    if mine.order is not None and any(part.order != mine.order for part in parts):
        raise RuntimeError(
            f"{mine.name} of a tensor whose elements lie in memory in another order than on other ranks: gloo works on "
            "the memory and gives wrong values. Call .contiguous() first"
        )
    no_average = mine.reduction == "AVG" and not mine.inputs[0].is_floating_point()
    for output, value in zip(outputs, _results(mine, parts, me, meeting) if outputs else (), strict=True):
        if no_average and mine.name not in IN_MEMORY_ORDER:
            break
        if mine.name in IN_MEMORY_ORDER and not output.is_contiguous():
            flat(output).copy_(value.view(-1))
        else:
            output.detach().copy_(value.view(output.shape))
    if no_average:
        mine.inputs[0].div_(len(parts))  # raises what gloo's division raises


def _results(mine: Part, parts: list[Part], me: int, meeting: Meeting) -> Sequence[torch.Tensor]:
    """What the rank at place `me` of the group gets, tensor by tensor."""
    name, n = mine.name, len(parts)
    if name in ("all_reduce", "all_reduce_coalesced", "reduce"):
        if meeting.result is None:  # made once for all
            columns = zip(*(part.inputs for part in parts), strict=True)
            meeting.result = [reduced(column, mine.reduction) for column in columns]
        return meeting.result  # type: ignore[no-any-return]
    if name == "broadcast":
        return parts[mine.root].inputs
    if name in ("all_gather", "gather"):
        return [part.inputs[0] for part in parts]
    if name == "all_gather_coalesced":
        return [tensor for part in parts for tensor in part.inputs]
    if name == "all_gather_into_tensor":
        return [torch.cat([part.inputs[i].view(-1) for part in parts]) for i in range(len(mine.inputs))]
    if name == "scatter":
        return [parts[mine.root].inputs[me]]
    if name == "reduce_scatter":
        return [reduced([part.inputs[me] for part in parts], mine.reduction)]
    if name == "reduce_scatter_tensor":
        return [
            reduced([part.inputs[i].view(n, -1)[me] for part in parts], mine.reduction) for i in range(len(mine.inputs))
        ]
    if name == "all_to_all":
        return [part.inputs[me] for part in parts]
    assert name == "all_to_all_single", name
    ranks = meeting.group.ranks
    for sender, part in enumerate(parts):
        if part.splits[me] != mine.takes[sender]:  # gloo aborts, or leaves what was there
            raise RuntimeError(
                "the splits of all_to_all_single do not fit together: the number of elements that rank "
                f"{ranks[sender]} sends to rank {ranks[me]} is {part.splits[me]}, but rank {ranks[me]} expects "
                f"{mine.takes[sender]}. A rank's output_split_sizes must be what the other ranks' input_split_sizes "
                "hold for it"
            )
    return [torch.cat([part.inputs[0].view(-1).split(list(part.splits))[me] for part in parts])]
