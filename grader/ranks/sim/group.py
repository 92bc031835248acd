"""A process group of simulated ranks, in the place of torch's ProcessGroupGloo.

What torch.distributed's Python calls and what its C++ calls (DDP's reducer, functional collectives) arrive at the same
methods. Private to torch: the version is pinned and tests/ranks/test_seam.py holds the seam.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, ClassVar, NoReturn

import torch
import torch.distributed as dist
import torch.distributed.nn.functional  # before any rank: its default group is then whichever rank's calls it
from torch.distributed import distributed_c10d as c10d
from torch.overrides import has_torch_function_unary

from grader.ranks import groups
from grader.ranks.called import COLLECTIVES
from grader.ranks.sim import futures
from grader.ranks.sim.collectives import Part, Tensors, flat, is_dense, reduction_name
from grader.ranks.sim.context import Context, SimMessage, SimWork
from grader.trace.events import GROUP_BITS, RECV, RECV_ANY, SEND


def install(context: Context) -> None:
    """From now on torch.distributed's backend "gloo" is the simulator's."""
    SimGroup.context = context
    c10d.ProcessGroupGloo = SimGroup
    dist.isend, dist.irecv = c10d.isend, c10d.irecv = isend, irecv
    futures.install(context)

    def made(ranks: list[int], line: int) -> None:
        context.tell({"event": "made_group", "rank": context.scheduler.current.number, "ranks": ranks, "line": line})

    groups.tell(made if context.watches else None, context.line)


_isend, _irecv = c10d.isend, c10d.irecv


@functools.wraps(_isend)
def isend(tensor: Any, dst: Any = None, group: Any = None, tag: Any = 0, group_dst: Any = None) -> Any:
    return _start(SEND, tensor, dst, group, tag, group_dst) or _isend(tensor, dst, group, tag, group_dst)


@functools.wraps(_irecv)
def irecv(tensor: Any, src: Any = None, group: Any = None, tag: Any = 0, group_src: Any = None) -> Any:
    return _start(RECV, tensor, src, group, tag, group_src) or _irecv(tensor, src, group, tag, group_src)


def _start(kind: int, tensor: Any, peer: Any, group: Any, tag: Any, group_peer: Any) -> SimMessage | None:
    """A plain message in the default group, without torch looking that up six times: a fifth of what a message takes.
    None where torch's own way is to be taken, also for what it would raise."""
    world = c10d._world.default_pg
    if type(world) is not SimGroup or group is not None or group_peer is not None or type(peer) is not int:
        return None
    if type(tensor) is not torch.Tensor or tensor.is_complex() or has_torch_function_unary(tensor):
        return None
    if type(tag) is not int or not 0 <= tag < 2**GROUP_BITS or peer < 0:
        return None
    try:
        return world.context.start(kind, peer, tag, tensor, world._ranks)
    except (RuntimeError, ValueError):
        return None


class SimGroup(dist.ProcessGroup):  # type: ignore[misc]
    """One rank's handle on a group."""

    context: ClassVar[Context]

    def __init__(self, store: Any, rank: int, size: int, timeout: timedelta | None = None) -> None:
        super().__init__(rank, size)
        self.options = types.SimpleNamespace(group_name="", group_desc="", global_ranks_in_group=[], _timeout=timeout)
        self._me = rank
        self._destroyed: int | None = None  # the line at which it was destroyed

    def _set_sequence_number_for_group(self) -> None:
        """torch calls this when the group's name and ranks are known. A new group is made by all its ranks together."""
        self._group = self.context.group(
            self.options.group_name, tuple(self.options.global_ranks_in_group) or range(self.size())
        )
        self._ranks = self._group.ranks
        self._tags = self._group.number << GROUP_BITS
        if self.options.global_ranks_in_group:  # the default group is there when the program begins
            self.context.join(self._group, Part("new_group", (), ())).wait()

    # ---- what torch asks of a group

    @property
    def group_name(self) -> str:
        return str(self.options.group_name)

    @property
    def group_desc(self) -> str:
        return str(self.options.group_desc)

    @property
    def _device_types(self) -> list[torch.device]:
        return [torch.device("cpu")]

    def getBackendName(self) -> str:  # noqa: N802 - torch calls it so
        return "sim"  # to C++, which would look for gloo behind it

    def _get_backend_name(self) -> str:
        return "sim"  # to C++, which would look for gloo behind it

    def name(self) -> str:
        return "sim"  # to C++, which would look for gloo behind it

    def _get_backend(self, device: Any) -> _Backend:
        return _Backend(self)

    def shutdown(self) -> None:
        self._destroyed = self.context.line()

    def abort(self) -> None:
        pass

    def _set_group_name(self, name: str) -> None:
        pass

    def _set_group_desc(self, description: str) -> None:
        self.options.group_desc = description

    # ---- point-to-point

    def send(self, tensors: list[torch.Tensor], dst: int, tag: int = 0) -> SimMessage:
        return self.context.start(SEND, self._world_rank(dst), self._tag(tag), tensors[0], self._ranks)

    def recv(self, tensors: list[torch.Tensor], src: int, tag: int = 0) -> SimMessage:
        return self.context.start(RECV, self._world_rank(src), self._tag(tag), tensors[0], self._ranks)

    def recv_anysource(self, tensors: list[torch.Tensor], tag: int = 0) -> SimMessage:
        return self.context.start(RECV_ANY, -1, self._tag(tag), tensors[0], self._ranks)

    def _world_rank(self, rank: int) -> int:
        return self._ranks[rank] if 0 <= rank < len(self._ranks) else rank

    def _tag(self, tag: int) -> int:
        if not 0 <= tag < 2**GROUP_BITS:
            raise ValueError(f"a tag must be from 0 to {2**GROUP_BITS - 1}, not {tag}")
        return self._tags + tag

    # ---- collectives

    def _join(self, part: Part) -> SimWork:
        if self._destroyed is not None and self.context.watches:
            self.context.used_after_destroy(part.name, self._destroyed)
        return self.context.join(self._group, part)

    def allreduce(self, tensors: Any, opts: Any = None) -> SimWork:
        tensors = _list(tensors)
        if tensors[0].is_sparse:
            self.context.needs_processes("it reduces a sparse tensor")
        brought = _in_memory_order("all_reduce", tensors)
        return self._join(
            Part("all_reduce", brought, tensors, -1, _reduction(opts), waited=_sync(opts), order=_order(tensors))
        )

    def allreduce_coalesced(self, tensors: Tensors, opts: Any = None) -> SimWork:
        return self._join(Part("all_reduce_coalesced", tensors, tensors, -1, _reduction(opts), waited=_sync(opts)))

    def broadcast(self, tensors: Any, opts: Any = None) -> SimWork:
        tensors = _list(tensors)
        root = opts.rootRank if opts is not None and not isinstance(opts, int) else (opts or 0)
        brought = _in_memory_order("broadcast", tensors)
        mine = self._me == root
        waited = _sync(opts) or not (mine and self.context.watches)
        into = () if mine else tensors
        return self._join(Part("broadcast", brought, into, root, waited=waited, order=_order(tensors)))

    def reduce(self, tensors: Any, opts: Any = None) -> SimWork:
        tensors = _list(tensors)
        brought = _in_memory_order("reduce", tensors)
        outputs = tensors if self._me == opts.rootRank else ()
        reduction, order = _reduction(opts), _order(tensors)
        return self._join(Part("reduce", brought, outputs, opts.rootRank, reduction, waited=_sync(opts), order=order))

    def allgather(self, outputs: Any, inputs: Any, opts: Any = None) -> SimWork:
        into = _list(outputs[0]) if isinstance(outputs[0], (list, tuple)) else list(outputs)
        brought = _list(inputs)
        self._one_each("all_gather", into, brought[0])
        return self._join(Part("all_gather", brought, into, waited=_sync(opts)))

    def allgather_coalesced(self, outputs: Any, inputs: Tensors, opts: Any = None) -> SimWork:
        into = [tensor for of_rank in outputs for tensor in of_rank]
        return self._join(Part("all_gather_coalesced", inputs, into, waited=_sync(opts)))

    def all_gather_single(self, output: torch.Tensor, brought: torch.Tensor, opts: Any = None) -> SimWork:
        return self.all_gather_single_coalesced([output], [brought], opts)

    _allgather_base = all_gather_single

    def all_gather_single_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> SimWork:
        for output, brought in zip(outputs, inputs, strict=True):
            if output.numel() != brought.numel() * self.size():
                raise ValueError("output tensor size must be equal to world_size times input tensor size")
            if brought.dim() and output.shape[1:] != brought.shape[1:]:
                raise RuntimeError(
                    f"gloo puts the tensors one after another along dimension 0: the output must have the shape "
                    f"{(output.shape[0], *brought.shape[1:])}, not {tuple(output.shape)}"
                )
        return self._join(Part("all_gather_into_tensor", inputs, outputs, waited=_sync(opts)))

    allgather_into_tensor_coalesced = all_gather_single_coalesced

    def gather(self, outputs: Any, inputs: Any, opts: Any = None) -> SimWork:
        brought = _list(inputs)
        into = _list(outputs[0]) if self._me == opts.rootRank and outputs else ()
        if into:
            self._one_each("gather", into, brought[0])
        return self._join(Part("gather", brought, into, opts.rootRank, waited=_sync(opts)))

    def scatter(self, outputs: Any, inputs: Any, opts: Any = None) -> SimWork:
        into = _list(outputs)
        brought = _list(inputs[0]) if self._me == opts.rootRank and inputs else ()
        if brought:
            self._one_each("scatter", brought, into[0])
        size = into[0].nbytes
        return self._join(Part("scatter", brought, into, opts.rootRank, size=size, waited=_sync(opts)))

    def reduce_scatter(self, outputs: Any, inputs: Any, opts: Any = None) -> SimWork:
        into, brought = _list(outputs), _list(inputs[0])
        self._one_each("reduce_scatter", brought, into[0])
        return self._join(Part("reduce_scatter", brought, into, -1, _reduction(opts), waited=_sync(opts)))

    def reduce_scatter_single(self, output: torch.Tensor, brought: torch.Tensor, opts: Any = None) -> SimWork:
        return self.reduce_scatter_single_coalesced([output], [brought], opts)

    _reduce_scatter_base = reduce_scatter_single

    def reduce_scatter_single_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> SimWork:
        for output, brought in zip(outputs, inputs, strict=True):
            if output.numel() * self.size() != brought.numel():
                raise ValueError("input tensor must be the same size as output size times world size")
            if output.dim() and (output.shape[0] * self.size(), *output.shape[1:]) != tuple(brought.shape):
                raise RuntimeError(
                    f"gloo cuts the input along dimension 0: the input must have the shape "
                    f"{(output.shape[0] * self.size(), *output.shape[1:])}, not {tuple(brought.shape)}"
                )
        return self._join(Part("reduce_scatter_tensor", inputs, outputs, -1, _reduction(opts), waited=_sync(opts)))

    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    def alltoall(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> SimWork:
        for tensors in (inputs, outputs):  # gloo's takes equal sizes only
            self._one_each("all_to_all", tensors, inputs[0])
        return self._join(Part("all_to_all", inputs, outputs, waited=_sync(opts)))

    def all_to_all_single(
        self,
        output: torch.Tensor,
        brought: torch.Tensor,
        output_splits: Sequence[int] = (),
        input_splits: Sequence[int] = (),
        opts: Any = None,
    ) -> SimWork:
        if not brought.is_contiguous():
            raise ValueError("Tensors must be contiguous")
        if not output.is_contiguous():
            raise RuntimeError(
                "all_to_all_single got an output that is not contiguous: gloo would fill its memory in order and give "
                "wrong values. Make the output contiguous"
            )
        takes, splits = self._splits(output, output_splits), self._splits(brought, input_splits)
        part = Part("all_to_all_single", [brought], [output], splits=splits, takes=takes, waited=_sync(opts))
        return self._join(part)

    def _splits(self, tensor: torch.Tensor, given: Sequence[int]) -> list[int]:
        """How many elements of a tensor belong to each rank, from the rows that are given, or of equal parts."""
        n = self.size()
        if not given:
            if tensor.numel() % n:
                raise RuntimeError("Tensor's dim 0 does not divide equally across group size")
            return [tensor.numel() // n] * n
        if len(given) != n:
            raise RuntimeError("Number of tensor splits not equal to group size")
        rows = tensor.shape[0] if tensor.dim() else 1
        if sum(given) != rows or min(given) < 0:
            raise RuntimeError("Split sizes doesn't match total dim 0 size")
        return [int(share) * (tensor.numel() // max(rows, 1)) for share in given]

    alltoall_base = all_to_all_single

    def barrier(self, opts: Any = None) -> SimWork:
        return self._join(Part("barrier", (), ()))

    def monitored_barrier(self, timeout: Any = None, wait_all_ranks: bool = False) -> None:
        self._join(Part("monitored_barrier", (), ())).wait()

    def _one_each(self, name: str, tensors: Tensors, like: torch.Tensor) -> None:
        """There must be one tensor a rank, all of the same size and type."""
        if len(tensors) != self.size():
            raise ValueError(f"{name} takes a list of {self.size()} tensors, one per rank, not of {len(tensors)}")
        for tensor in tensors:
            if tensor.dtype != like.dtype or tensor.numel() != like.numel():
                raise ValueError(
                    f"{name} takes tensors of one size and dtype, but one has {like.numel()} elements of {like.dtype} "
                    f"and another has {tensor.numel()} of {tensor.dtype}"
                )

    def _start_coalescing(self, device: Any) -> None:
        self.context.needs_processes("it uses the backend's coalescing")

    def split_group(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError("gloo groups are made with new_group; split_group needs NCCL")


class OfThread(SimGroup):
    """What C++ finds by a group's name where all ranks share a thread: it is no rank's. Whoever uses it is told to
    `cannot`, which does not return."""

    def __init__(self, cannot: Callable[[], NoReturn]) -> None:
        super().__init__(None, 0, 1)
        self._cannot = cannot

    def _use(self, *_: Any, **__: Any) -> NoReturn:
        self._cannot()


for _name in (
    "_join",
    "_world_rank",
    "rank",
    "size",
    "getBackendName",
    "_get_backend_name",
    "_get_backend",
    "__hash__",
):
    setattr(OfThread, _name, OfThread._use)


class _Backend:
    """What stands behind a group: gloo has nothing more to offer than the group itself."""

    supports_coalescing = supports_splitting = supports_time_estimate = False

    def __init__(self, group: SimGroup) -> None:
        self._group = group
        self.options = group.options

    def __getattr__(self, method: str) -> Any:
        if method.startswith("__"):
            raise AttributeError(method)
        context = self._group.context
        context.forbid(COLLECTIVES.get(method, method))
        found = getattr(SimGroup, method, None)
        if found is None:
            context.needs_processes(f"it uses the backend's {method}")
        return types.MethodType(found, self._group)


def _list(tensors: Any) -> list[torch.Tensor]:
    return [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)


def _sync(opts: Any) -> bool:
    """Whether the caller waits for it at once."""
    return opts is not None and getattr(opts, "asyncOp", True) is False


def _reduction(opts: Any) -> str:
    return reduction_name(getattr(opts, "reduceOp", opts) if opts is not None else dist.ReduceOp.SUM)


def _in_memory_order(name: str, tensors: Tensors) -> list[torch.Tensor]:
    """What gloo sees of the tensors: their memory. Where that has no gaps it may be in any order, as a transposed
    tensor's is. Raises RuntimeError where it has gaps."""
    for tensor in tensors:
        if not is_dense(tensor):
            raise RuntimeError(
                f"{name} got a tensor that is not contiguous: gloo would use its memory in order and give wrong "
                "values. Call .contiguous() first"
            )
    return [tensor if tensor.is_contiguous() else flat(tensor) for tensor in tensors]


def _order(tensors: Tensors) -> list[tuple[int, ...]] | None:
    """In which order dense tensors' elements lie in memory; None where that is the usual one."""
    return None if all(tensor.is_contiguous() for tensor in tensors) else [tensor.stride() for tensor in tensors]
