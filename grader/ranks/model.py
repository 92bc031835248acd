"""compute() and track(): what a program says of its work and its memory, so that a run can count and draw it.

    from grader import compute, track

In the simulator compute() takes virtual time; on real processes it sleeps for so long. track() counts the bytes of
tensors for as long as they live. Outside of a run both do nothing.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from typing import Any

_compute: Callable[[float, str], None] | None = None
MOST_NAME = 7  # letters and digits
_ledger: Callable[[], Ledger] | None = None


class Ledger:
    """Bytes of one rank's tracked tensors: now, and at most."""

    def __init__(self) -> None:
        self.now = self.peak = 0

    def add(self, size: int) -> None:
        self.now += size
        self.peak = max(self.peak, self.now)


def begin(compute: Callable[[float, str], None], ledger: Callable[[], Ledger]) -> None:
    """A run begins: how its ranks compute, and the running rank's ledger."""
    global _compute, _ledger
    _compute, _ledger = compute, ledger


def compute(seconds: float, name: str = "") -> None:
    """Work for `seconds`; pictures call it by its `name`, such as "F0" for the first forward pass.

    Raises ValueError for a negative time, and for a name that is not up to 7 letters and digits.
    """
    if not seconds >= 0:
        raise ValueError(f"compute() takes a number of seconds that is 0 or more, not {seconds}")
    if name and not (name.isascii() and name.isalnum() and len(name) <= MOST_NAME):
        raise ValueError(f"compute() takes a name of up to {MOST_NAME} letters and digits, not {name!r}")
    if _compute is not None:
        _compute(seconds, name)


def track(value: Any) -> Any:
    """Count the memory of a tensor, or of every tensor in a list, dict, module or optimizer, until it is freed.

    Returns `value`, so that it can be written where a tensor is made: `buffer = track(torch.zeros(1024))`.
    """
    if _ledger is not None:
        ledger = _ledger()
        for tensor in _tensors(value):
            ledger.add(tensor.nbytes)
            weakref.finalize(tensor, ledger.add, -tensor.nbytes).atexit = False
    return value


def _tensors(value: Any) -> Iterator[Any]:
    if hasattr(value, "untyped_storage"):
        yield value
    elif hasattr(value, "parameters"):
        yield from value.parameters()
        yield from value.buffers()
    elif hasattr(value, "state") and hasattr(value, "param_groups"):
        yield from _tensors(list(value.state.values()))
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _tensors(part)
