"""What a program does to memory that a request still uses: its reads and writes before wait(), as torch makes them.

A dispatch mode sees every operation of torch on a rank's thread, so the line of a read or write is known, and not only
that something has changed. The mode is there only while a request of the learner's own is open. Runs in the box.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import types
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode, _pop_mode, _push_mode

from grader.ranks.program import nested
from grader.trace.events import RECV, RECV_ANY, SEND

_length, _at = torch._C._len_torch_dispatch_stack, torch._C._get_dispatch_stack_at
_OURS = os.path.dirname(os.path.dirname(__file__))
_TORCH = os.path.dirname(torch.__file__) + os.sep
# files through which a call of the learner's comes
_OF_TORCH = ("distributed_c10d.py", "c10d_logger.py", "typing_extensions.py")
_BLOCKING = ("send", "recv")  # functions of torch's that wait for themselves
_WITHOUT_VALUES = (
    "set_",
    "is_pinned",
    "record_stream",
    "as_strided_",
    "detach_",
    "squeeze_",
    "t_",
    "transpose_",
    "unsqueeze_",
)  # what looks at no value of its arguments; more by the form of its name
_PLAIN = (torch.Tensor, torch.nn.Parameter)
MOST_CELLS = 2**16  # of a tensor with gaps: of a larger one it is not worked out where exactly it lies


class Region:
    """Where a tensor lies: addresses from and to, and whether without gaps."""

    __slots__ = ("begin", "dense", "end", "tensor")

    def __init__(self, tensor: torch.Tensor) -> None:
        reach = 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
        self.begin, self.tensor = tensor.data_ptr(), tensor
        self.end = self.begin + reach * tensor.element_size()
        self.dense = reach == tensor.numel()

    def meets(self, other: Region) -> bool:
        """Whether both have a byte in common."""
        if not (self.begin < other.end and other.begin < self.end):
            return False
        if self.dense and other.dense:
            return True
        if max(self.tensor.numel(), other.tensor.numel()) > MOST_CELLS:
            return False
        return bool(np.intersect1d(self._bytes(), other._bytes()).size)

    def _bytes(self) -> np.ndarray[Any, Any]:
        size, at = self.tensor.element_size(), np.array([self.begin])
        for n, stride in zip(self.tensor.shape, self.tensor.stride(), strict=True):
            at = (at[:, None] + np.arange(n) * stride * size).reshape(-1)
        return (at[:, None] + np.arange(size)).reshape(-1)


class _Held:
    """An operation that was not waited for: the memory that it fills, that which it reads, and whether it was told.

    `arrays` are numpy's views that were taken of what it fills, and at which lines.
    """

    __slots__ = ("arrays", "brings", "fills", "op", "told")

    def __init__(self, op: Any, fills: list[Region], brings: list[Region]) -> None:
        self.op, self.fills, self.brings, self.told = op, fills, brings, False
        self.arrays: list[tuple[weakref.ref[Any], int]] = []

    def misused(self, region: Region, writes: bool, receives: bool) -> str:
        """What it is called that somebody touches this region; "" where that is right."""
        if any(mine.meets(region) for mine in self.fills):
            if self.op.kind not in (RECV, RECV_ANY):
                return "written_in_collective" if writes else "read_in_collective"
            return "received_twice" if receives else "written_received" if writes else "read_received"
        if writes and any(mine.meets(region) for mine in self.brings):
            if self.op.kind != SEND:
                return "written_in_collective"
            return "received_into" if receives else "written_sent"
        return ""


class Watch(TorchDispatchMode):  # type: ignore[misc]
    """One rank's. An operation has `kind`, `peer` and `line`; `tell(how, operation, line)` hears of each misused once,
    with the line of the read or write."""

    def __init__(self, file: str, line: Callable[[], int], tell: Callable[[str, Any, int], None]) -> None:
        super().__init__()
        self._file, self._line, self._tell = file, line, tell
        self._held: dict[int, _Held] = {}
        self._of_torch: dict[int, Any] = {}
        self._aside = False

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # or the first operation would import all of it

    def hold(self, op: Any, fills: Sequence[torch.Tensor], brings: Sequence[torch.Tensor]) -> None:
        """An operation was posted. Those of torch's own code (DDP, FSDP) know by themselves when they are over."""
        by = _poster()
        if by == self._file:
            self._held[id(op)] = _Held(op, list(_regions(fills)), list(_regions(brings)))
        elif by.startswith(_TORCH):
            self._of_torch[id(op)] = op
        self.settle()

    def is_of_torch(self, op: Any) -> bool:
        """Whether torch's own code posted it: `DistributedDataParallel.join` starts some without ever waiting."""
        return id(op) in self._of_torch

    def release(self, op: Any) -> bool:
        """It is waited for. Returns whether it was told of."""
        held = self._held.pop(id(op), None)
        self._of_torch.pop(id(op), None)
        self.settle()
        if held is None:
            return False
        used = next((line for array, line in held.arrays if array() is None), None)
        if used is not None and not held.told:  # what is gone by now was read before
            self._tell(held.misused(held.fills[0], writes=False, receives=False), op, used)
        return held.told

    def clear(self) -> None:
        """A call is over."""
        self._held.clear()
        self._of_torch.clear()
        self.settle()

    def settle(self) -> None:
        """Be on the thread's stack of modes just while something is held. A mode of the learner's own that was there
        before stays the last, and nothing is watched below it; of `ours` are those that take virtual time."""
        if self._held and all(getattr(_at(place), "ours", False) for place in range(_length())):
            _push_mode(self)
        elif not self._held:
            self.lift()

    def lift(self) -> None:
        """Leave the stack until `settle`."""
        size = _length()
        if size and _at(size - 1) is self:
            _pop_mode()

    @contextlib.contextmanager
    def set_aside(self) -> Iterator[None]:
        """What happens now is the simulator's own doing."""
        self._aside = True
        try:
            yield
        finally:
            self._aside = False

    def touch(self, tensor: torch.Tensor, writes: bool, receives: bool = False) -> None:
        """The rank reads or writes a tensor now; or `receives` into it."""
        if not self._held or self._aside:
            return
        for region in _regions([tensor]):
            for held in list(self._held.values()):
                how = "" if held.told else held.misused(region, writes, receives)
                if how:
                    held.told = True
                    self._tell(how, held.op, self._line())

    def lend(self, tensor: torch.Tensor, array: Any) -> None:
        """The rank takes numpy's view of a tensor. Whether it reads that before wait() shows at wait()."""
        if self._held and not self._aside:
            for region in _regions([tensor]):
                for held in self._held.values():
                    if held.misused(region, writes=False, receives=False):
                        held.arrays.append((weakref.ref(array), self._line()))

    def __torch_dispatch__(
        self, func: Any, classes: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if self._held and not self._aside:
            written = _written(func)
            if written is not None:
                for place, given in (*enumerate(args), *kwargs.items()):
                    for tensor in nested(given, torch.Tensor):
                        self.touch(tensor, place in written)
        return func(*args, **kwargs)


@functools.cache
def _written(func: Any) -> frozenset[int | str] | None:
    """Which arguments an operation of torch writes, by place and by name; None where it uses no values at all."""
    space, _, name = func._schema.name.partition("::")
    if func.is_view or space.lstrip("_").startswith("c10d") or name in _WITHOUT_VALUES:
        return None
    if name.startswith(("empty", "new_")) or name.endswith("_like"):
        return None
    found: set[int | str] = set()
    for place, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            found |= {place, argument.name}
    return frozenset(found)


def _regions(tensors: Sequence[torch.Tensor]) -> Iterator[Region]:
    """Where those lie that have memory of this machine."""
    for tensor in tensors:
        if type(tensor) in _PLAIN and tensor.layout is torch.strided and tensor.numel() and not tensor.is_meta:
            yield Region(tensor)


def _poster() -> str:
    """The file whose code makes the call that is being made, behind torch's collectives; "" where these wait."""
    frame: types.FrameType | None = sys._getframe(2)
    while frame is not None:
        name = frame.f_code.co_filename
        of_torch = name.endswith(_OF_TORCH)
        if of_torch and frame.f_code.co_name in _BLOCKING:
            return ""
        if not of_torch and not name.startswith(_OURS):
            return name
        frame = frame.f_back
    return ""


# ---- what no dispatch mode sees

_current: Callable[[], Watch | None] = lambda: None  # noqa: E731 - of the rank that runs


def install(current: Callable[[], Watch | None]) -> None:
    """Tell the running rank's watch of tensors that are printed, made lists or seen by numpy, and of the end of a
    backward pass, which puts the thread's modes back as they were at its beginning."""
    global _current
    _current = current
    if getattr(torch.Tensor.tolist, "watched", False):
        return
    for name in ("tolist", "__repr__"):
        setattr(torch.Tensor, name, _reading(getattr(torch.Tensor, name)))
    numpy = torch.Tensor.numpy

    def lending(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        array, watch = numpy(self, *args, **kwargs), _current()
        if watch is not None:
            watch.lend(self, array)
        return array

    torch.Tensor.numpy = lending
    run = torch.autograd._engine_run_backward

    def run_backward(*args: Any, **kwargs: Any) -> Any:
        done = run(*args, **kwargs)
        watch = _current()
        if watch is not None:
            watch.settle()
        return done

    torch.autograd._engine_run_backward = run_backward


def _reading(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def read(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        watch = _current()
        if watch is not None:
            watch.touch(self, writes=False)
        return original(self, *args, **kwargs)

    read.watched = True  # type: ignore[attr-defined]
    return read
