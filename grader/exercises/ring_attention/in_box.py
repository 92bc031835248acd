"""In each rank: the learner's split and merge on tensors of ours, and attention forward and backward on this rank's
shards; tells what came out, what of other ranks lay in memory, and charges matrix products virtual time.

Runs in the box. It judges nothing: the exercise does, outside, by what is returned and by the trace.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch.utils._python_dispatch import TorchDispatchMode

from grader.ranks.model import compute
from grader.ranks.sim.products import FLOPS, Products
from grader.trace.events import SEND

MARK, MARK_NAME = 0.001, "begin"  # virtual seconds before each pass and after the last: the trace is cut there
CODES = 2**12 - 1  # the bits of a float32 that say whose K or V it is of
FORWARD, BETWEEN, BACKWARD = "forward", "between", "backward"

submission: Any  # the learner's module


# ---- split and merge


def cut(split: Any, whole: torch.Tensor, shards: list[torch.Tensor], count: int) -> dict[str, Any]:
    """`whole` split and merged again, and `shards` of ours merged; each time from copies."""
    kept = whole.clone()
    found = split(whole, count)
    told: dict[str, Any] = {"type": type(found).__name__, "places": places(split, tuple(whole.shape), count)}
    if isinstance(found, (list, tuple)) and all(isinstance(each, torch.Tensor) for each in found):
        found = list(found)
        told["shards"] = found
    if told["places"] is not None and "shards" in told:  # else merge() would raise for a mistake of split()
        told["merged"] = submission.merge([each.clone() for each in found])
        told["ours"] = submission.merge([each.clone() for each in shards])
        try:
            told["double"] = submission.merge(list(split(whole.double() / 3, count)))
        except Exception as trouble:  # a mistake of split() and merge() alone, not of the whole program
            told["trouble"] = f"{type(trouble).__name__}: {trouble}"[:400]
    told["changed"] = not torch.equal(whole, kept)
    return told


def places(split: Any, shape: tuple[int, ...], count: int) -> Any:
    """Each shard's positions in the sequence, as (count, length): by a tensor that is split and holds nothing else."""
    batch, heads, sequence, dim = shape
    numbers = torch.arange(sequence, dtype=torch.float32).view(1, 1, sequence, 1)
    found = split(numbers.expand(batch, heads, sequence, dim).contiguous(), count)
    wanted = (batch, heads, sequence // count, dim)
    if not isinstance(found, (list, tuple)) or len(found) != count:
        return None
    if any(not isinstance(each, torch.Tensor) or each.shape != wanted for each in found):
        return None
    rows = torch.stack([each[0, 0, :, 0] for each in found])
    return (
        rows
        if all(bool((each == row.view(1, 1, -1, 1)).all()) for each, row in zip(found, rows, strict=True))
        else None
    )


# ---- attention


def attend(theirs: Any, plan: dict[str, Any], *problems: list[torch.Tensor]) -> dict[str, Any]:
    """Every problem forward, then all backward, the last one first, as the layers of a model do."""
    count = dist.get_world_size()
    batch, heads, length, dim = problems[0][0].shape
    told: dict[str, Any] = {"places": places(submission.split, (batch, heads, count * length, dim), count)}
    context = getattr(dist.distributed_c10d._get_default_group(), "context", None)
    pair, sequence = 2 * problems[0][0].numel(), count * length
    watch = _Memory(plan["codes"], pair, sequence, context) if plan["codes"] and context else None
    charge = Products(plan["seconds"] / 2) if plan["seconds"] else None  # of a multiplication, or of an addition
    given = [[each.detach().requires_grad_() for each in problem[:3]] for problem in problems]
    kept = [[each.detach().clone() for each in tensors] for tensors in given]  # what a caller has may not change
    compute(MARK, MARK_NAME)
    with _watched(watch, charge, FORWARD):
        outputs = [theirs(*tensors, causal) for tensors, causal in zip(given, plan["causal"], strict=True)]
    told["outputs"], told["type"] = outputs, type(outputs[0]).__name__
    if watch is not None:
        watch.look(BETWEEN)
    now = context.scheduler.current.clock if context else 0.0
    compute(max(MARK, plan["together"] - now), MARK_NAME)  # all ranks begin to go backward at the same time
    usable = [isinstance(out, torch.Tensor) and out.shape == problems[0][0].shape for out in outputs]
    told["differentiable"] = all(usable) and all(out.requires_grad for out in outputs)
    if told["differentiable"]:
        with _watched(watch, charge, BACKWARD):
            for tensors in reversed(range(len(problems))):
                torch.autograd.backward(outputs[tensors], problems[tensors][3].to(outputs[tensors].dtype))
        compute(MARK, MARK_NAME)
        told["grads"] = [[each.grad for each in tensors] for tensors in given]
    told["changed"] = [
        [not torch.equal(each, before) for each, before in zip(*pair, strict=True)]
        for pair in zip(given, kept, strict=True)
    ]
    if watch is not None:
        told["memory"] = watch.told()
    return told


@contextlib.contextmanager
def _watched(watch: _Memory | None, charge: Products | None, stage: str) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        if charge is not None:
            stack.enter_context(charge)
        if watch is not None:
            stack.enter_context(watch.during(stage))
        yield


# ---- memory


class _Memory(TorchDispatchMode):  # type: ignore[misc]
    """Knows every tensor's memory that is made, and looks, at each matrix product and where a message has arrived, whose
    K and V are in it: by the codes in their last bits, however they came there. Several copies count as one.

    A gradient of K or V has no code: the memory of a message without codes counts until it dies or another message
    arrives there. What a message that is still to come will bring is known at the end.
    """

    def __init__(self, codes: list[int], pair: int, sequence: int, context: Any) -> None:
        super().__init__()
        self.owner = np.zeros(CODES + 1, np.int64)  # of each code, from 1 on
        self.owner[codes] = np.arange(1, len(codes) + 1)
        self.owners, self.pair, self.sequence, self.context = len(codes) + 1, pair, sequence, context
        self.handles: dict[int, int] = {}  # which do not keep the memory alive
        self.coming: dict[int, tuple[int, int]] = {}  # of receives that were posted: the addresses of their buffers
        self.brought: dict[int, np.ndarray[Any, Any]] = {}  # by receive: numbers of nobody's K and V, of each owner's
        self.gradients: dict[int, tuple[int, int, int]] = {}  # of receives that are over: storage, and addresses
        self.looks: dict[Any, list[tuple[np.ndarray[Any, Any], int, tuple[int, ...], int]]] = {}
        self.square: list[int] = []
        self.square_line, self.stage = 0, ""
        gc.freeze()  # what was there before is not looked through each time

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func._schema.name.removeprefix("aten::")
        if func.overloadpacket in FLOPS:
            self.look(self.stage, computes=True)
        out = func(*args, **(kwargs or {}))
        if name.startswith(("empty", "new_empty")):
            out.zero_()  # what was freed before may still stand in it
        for tensor in out if isinstance(out, (list, tuple)) else (out,):
            if isinstance(tensor, torch.Tensor):
                self._note(tensor)
                if not self.square and sum(size >= self.sequence for size in tensor.shape) > 1:
                    self.square, self.square_line = list(tensor.shape), self.context.line()
        return out

    def _note(self, tensor: torch.Tensor) -> int:
        storage = tensor.untyped_storage()
        if storage._cdata not in self.handles:
            self.handles[storage._cdata] = storage._weak_ref()
        return int(storage._cdata)

    @contextlib.contextmanager
    def during(self, stage: str) -> Iterator[None]:
        """Look into this pass."""
        group: Any = dist.distributed_c10d._get_default_group()
        self.stage = stage
        group.context = _Messages(self.context, self)
        try:
            with self:
                yield
        finally:
            del group.context

    def posted(self, op: Any, tensor: torch.Tensor) -> None:
        if op.kind != SEND:
            self._note(tensor)
            self.coming[op.number] = op.memory

    def arrived(self, op: Any) -> None:
        if self.coming.pop(op.number, None) is not None:
            begin, end = op.memory
            counts = self._counts(begin, end - begin)
            if counts[0] < 0.1 * counts.sum():  # results of computing have some code by chance
                counts[0] = 0
            elif counts[0] > 0.9 * counts.sum():
                counts[1:] = 0
            self.brought[op.number] = counts
            self.gradients = {k: v for k, v in self.gradients.items() if v[2] <= begin or end <= v[1]}
            self.gradients[op.number] = (self._note(op.target), begin, end)
            self.look(self.stage)
        op.target = None  # a request that is over, and that somebody keeps, holds no memory here

    def look(self, stage: str, computes: bool = False) -> None:
        known, gradients = self._alive()
        most = 0.1 if stage == BETWEEN else 1.1 if computes and self.coming else 2.1
        if max(self._held(known), gradients) > most * self.pair:
            gc.collect()  # automatic collection is off: what only a cycle holds is garbage
            known, gradients = self._alive()
        block = len(self.brought) if computes else -len(self.looks) - 1
        self.looks.setdefault((stage, block), []).append((known, gradients, tuple(self.coming), self.context.line()))

    def _held(self, counts: np.ndarray[Any, Any]) -> int:
        """Numbers of other ranks' K and V, each once; a few have a code by chance."""
        return int(np.minimum(counts[1:], self.pair)[counts[1:] > 0.05 * self.pair].sum())

    def _counts(self, address: int, size: int) -> np.ndarray[Any, Any]:
        """How many numbers in memory are nobody's K and V, and each owner's."""
        numbers = np.frombuffer(ctypes.string_at(address, size - size % 4), np.uint32)
        return np.bincount(self.owner[numbers & CODES], minlength=self.owners)

    def _alive(self) -> tuple[np.ndarray[Any, Any], int]:
        """Numbers in memory of each other rank's K and V, and of gradients that messages brought."""
        known, there = np.zeros(self.owners, np.int64), set()
        for key, handle in list(self.handles.items()):
            storage = torch.UntypedStorage._new_with_weak_ptr(handle)
            if storage is None:
                torch.UntypedStorage._free_weak_ref(handle)
                del self.handles[key]
                continue
            there.add(key)
            if not storage.nbytes() or not storage.data_ptr() or storage.device.type != "cpu":
                continue
            start = storage.data_ptr()
            end = start + storage.nbytes()
            known += self._counts(start, storage.nbytes())
            for begin, until in self.coming.values():  # what stands there now is of no use
                if start <= begin < end:
                    known -= self._counts(begin, min(until, end) - begin)
        self.gradients = {number: place for number, place in self.gradients.items() if place[0] in there}
        return known, int(sum(self.brought[number][0] for number in self.gradients))

    def told(self) -> dict[str, Any]:
        """The most that was seen at one time in each pass, and between them, of K and V and of gradients: how many
        numbers, and the learner's line. Of the products between two arrivals the least counts: at the first of them,
        variables may still stand for the block before."""
        told: dict[str, Any] = {"square": self.square, "square_line": self.square_line}
        nothing = np.zeros(self.owners, np.int64)
        for (stage, _), looks in self.looks.items():
            most = told.setdefault(stage, {"known": [0, 0], "gradients": [0, 0]})
            seen: dict[str, list[list[int]]] = {"known": [], "gradients": []}
            for known, gradients, coming, line in looks:
                expected = sum((self.brought.get(number, nothing) for number in coming), nothing)
                seen["known"].append([self._held(known + expected), line])
                seen["gradients"].append([gradients + int(expected[0]), line])
            for what, counts in seen.items():
                most[what] = max(most[what], min(counts))
        return told


class _Messages:
    """The simulator's context, through which the learner's messages go, for a rank whose memory is looked at."""

    def __init__(self, context: Any, watch: _Memory) -> None:
        self._context, self._watch = context, watch

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    def start(self, kind: int, peer: int, tag: int, tensor: torch.Tensor, ranks: Any) -> Any:
        message = self._context.start(kind, peer, tag, tensor, ranks)
        message._context = self
        self._watch.posted(message._op, tensor)
        return message

    def wait_for_message(self, op: Any) -> None:
        self._context.wait_for_message(op)
        self._watch.arrived(op)
