"""Has every tensor arrived where it belongs, and if not, what is there instead; and who can know of whom by messages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from grader import says
from grader.exercises.common.sums import Array
from grader.ranks.program import Strided
from grader.trace.events import RECV_ANY, Trace

ROUNDED = "is right except for rounding"
MOST_SUBSETS = 10  # ranks up to which every subset is tried to explain a wrong sum


def values(generator: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Array:
    """Fresh values, whose sums over 16 ranks are exact in any order; float32 cannot hold those of float64."""
    count = int(np.prod(shape, dtype=np.int64))
    if dtype in ("bool", "uint8"):
        drawn = generator.integers(0, 2 if dtype == "bool" else 256, count).astype(dtype)
    elif dtype == "float32":
        drawn = (generator.integers(-(2**19), 2**19, count) / 8).astype(dtype)
    else:
        drawn = generator.integers(-(2**46), 2**46, count) / 256
    return drawn.reshape(shape)


@dataclass(frozen=True)
class Wrong:
    """What is wrong on one rank: the clause that says it, and two short texts."""

    what: str
    expected: str
    got: str


@dataclass(frozen=True)
class Given:
    """What every rank brought: `tensors[rank]` is a list of chunks, or holds the one tensor."""

    tensors: tuple[tuple[Array, ...], ...]
    chunked: bool

    @property
    def ranks(self) -> int:
        return len(self.tensors)

    def total(self, index: int, ranks: Sequence[int] | None = None) -> Array:
        """The sum over `ranks` (all of them) of their tensor number `index`."""
        chosen = range(self.ranks) if ranks is None else ranks
        return np.sum([self.tensors[r][index] for r in chosen], axis=0, dtype=self.tensors[0][index].dtype)

    def describe(self, array: Array, rank: int) -> str | None:
        """In words, as seen from `rank`, where these values come from; None if from nothing that was given."""
        if not array.size:
            return "nothing"
        for owner, index in self._all():
            if np.array_equal(self.tensors[owner][index], array):
                whose = "its own" if owner == rank else f"rank {owner}'s"
                return f"{whose} chunk {index}" if self.chunked else f"{whose} values"
        return self._as_sum(array)

    def _all(self) -> Iterator[tuple[int, int]]:
        for owner, tensors in enumerate(self.tensors):
            for index in range(len(tensors)):
                yield owner, index

    def _as_sum(self, array: Array) -> str | None:
        if array.dtype == bool:
            return None
        for index in range(len(self.tensors[0])):
            if len({len(tensors) for tensors in self.tensors}) > 1:
                return None  # scatter: only the root has chunks, and there is nothing to add
            of = f" of chunk {index}" if self.chunked else ""
            if np.array_equal(self.total(index), array):
                return f"the sum over all ranks{of}"
            if self.ranks > 1 and _close(array, self.total(index) / self.ranks):
                return f"the sum{of} divided by {self.ranks}"
            for size in range(2, self.ranks if self.ranks <= MOST_SUBSETS else 0):
                for subset in combinations(range(self.ranks), size):
                    if np.array_equal(self.total(index, subset), array):
                        missing = [r for r in range(self.ranks) if r not in subset]
                        return f"the sum{of} of {says.names(subset)} without {says.names(missing)}"
            for again in range(self.ranks):
                if np.array_equal(self.total(index, [*range(self.ranks), again]), array):
                    return f"the sum over all ranks{of} with rank {again} counted twice"
        return None


def compare(what: str, value: Any, expected: Array, given: Given, rank: int) -> Wrong | None:
    """None if `value`, which came back from `rank`, is the tensor `expected`; else what is wrong with `what`."""
    if not isinstance(value, Strided):
        kind = type_name(value)
        return Wrong(f"{what} is {kind} instead of a tensor", "a tensor", kind)
    if value.storage.dtype != expected.dtype:
        name = value.storage.dtype.name
        return Wrong(f"{what} is {name} instead of {expected.dtype.name}", expected.dtype.name, name)
    if value.shape != expected.shape:
        return Wrong(
            f"{what} has the shape {value.shape} instead of {expected.shape}", f"{expected.shape}", f"{value.shape}"
        )
    array = value.view()
    if np.array_equal(array, expected):
        return None
    first = tuple(int(i) for i in np.argwhere(array != expected)[0])
    place = f"element {list(first) if len(first) > 1 else first[0]}"
    differs = f"{place} is {array[first]!s} instead of {expected[first]!s}"
    texts = (f"{place} = {expected[first]!s}", f"{place} = {array[first]!s}")
    if _close(array, expected):
        rounded = f"{what} {ROUNDED}: {differs}. Keep the values in their own dtype all the way"
        return Wrong(rounded, *texts)
    holds = given.describe(array, rank) or ("only zeros" if not array.any() else None)
    if holds:
        return Wrong(f"{what} holds {holds} instead of {given.describe(expected, rank)}", *texts)
    wrong = int(np.count_nonzero(array != expected))
    share = "every element" if wrong == array.size else f"{wrong} of {array.size} elements"
    return Wrong(f"{what} is wrong in {share}: {differs}", *texts)


def _close(array: Array, expected: Array) -> bool:
    """Equal to what float32 can tell apart, and by no chance: whole numbers of one byte are equal or not."""
    if array.dtype.itemsize == 1:
        return False
    return bool(np.all(np.abs(array.astype(float) - expected.astype(float)) <= 1e-6 * np.abs(expected.astype(float))))


def compare_list(value: Any, expected: Sequence[Array], given: Given, rank: int) -> Wrong | None:
    """The same for a list of tensors that `rank` returned."""
    count = len(expected)
    if not isinstance(value, list):
        kind = type_name(value)
        return Wrong(f"the call returned {kind} instead of a list", f"a list of {count}", kind)
    if len(value) != count:
        what = f"the call returned a list of length {len(value)} instead of {count}. Return one entry for each rank"
        return Wrong(what, f"a list of {count}", f"a list of {len(value)}")
    wrongs = [compare(f"entry {k} of its list", entry, expected[k], given, rank) for k, entry in enumerate(value)]
    found = next(filter(None, wrongs), None)
    if found is None:
        return None
    order = _order(value, expected)
    told = ", ".join(map(str, order))
    if order == [*range(count)]:
        return found  # the values are right, but not their type
    if order and len(set(order)) == count:
        why = ", and begins with the rank's own entry" if order[0] == rank != 0 else ""
        what = f"its list has the order {told} instead of rank order{why}"
        return Wrong(what, f"order {', '.join(map(str, range(count)))}", f"order {told}")
    if order and len(set(order)) == 1:
        what = f"every entry of its list holds the values of entry {order[0]}. Give each entry a buffer of its own"
        return Wrong(what, found.expected, found.got)
    return found


def permuted(value: Sequence[Any], expected: Sequence[Array]) -> bool:
    """Whether a list has every entry that it should, but in another order."""
    order = _order(value, expected)
    return len(set(order)) == len(order) == len(expected) and order != sorted(order)


def _order(value: Sequence[Any], expected: Sequence[Array]) -> list[int]:
    """For each entry, which entry it should have been; empty where one is none of them."""
    order = []
    for entry in value:
        array = entry.view() if isinstance(entry, Strided) else None
        if array is None:
            return []
        match = next((k for k, other in enumerate(expected) if other.size and np.array_equal(other, array)), None)
        if match is None:
            return []
        order.append(match)
    return order


def type_name(value: Any) -> str:
    """What came out of the box where something else should have, in words."""
    if value is None:
        return "None"
    if isinstance(value, Strided):
        return "a tensor"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    return f"a {getattr(value, 'type_name', type(value).__name__)}"


def heard(trace: Trace) -> list[set[int]]:
    """Per rank, the ranks from which it has heard by the time it is done, itself included.

    A rank has heard from another if a chain of messages leads from that one to it, each sent after the one before had
    been received ("happened before": Lamport 1978). Only a receive that was waited for counts, and only for the
    receiver: that a send is done tells its sender nothing of the other rank, for sends may be buffered. Of several
    receives from any source, each might have got the message of another: they count when the last of them is done.
    """
    posted, received = _places(trace)
    messages = [(s, r) for s, r in trace.messages if id(s) in posted and id(r) in received]
    known: list[set[int]] = [{rank} for rank in range(trace.ranks)]
    for source in range(trace.ranks):
        since = {source: 0}  # by rank, the place in its own order from which on it has heard from `source`
        changed = True
        while changed:
            changed = False
            for send, recv in messages:
                place = received[id(recv)]
                if send.rank in since and posted[id(send)] >= since[send.rank] and place < since.get(recv.rank, _NEVER):
                    since[recv.rank] = place
                    changed = True
        for rank in since:
            known[rank].add(source)
    return known


_NEVER = 1 << 60


def _places(trace: Trace) -> tuple[dict[int, int], dict[int, int]]:
    """By id(operation), where in its rank's order a send was posted, and where a receive was done."""
    posted: dict[int, int] = {}
    received: dict[int, int] = {}
    for steps in trace.steps:
        for place, step in enumerate(steps):
            if step.what == "post":
                posted[id(step.operation)] = place
            elif step.operation.receives and step.operation.done:
                received.setdefault(id(step.operation), place)
        from_any = [step.operation for step in steps if step.what == "post" and step.operation.kind == RECV_ANY]
        for op in from_any:
            alike = [received[id(other)] for other in from_any if other.tag == op.tag and id(other) in received]
            if id(op) in received:
                received[id(op)] = max(alike)
    return posted, received
