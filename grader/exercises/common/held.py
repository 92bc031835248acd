"""Whose values a wrong result holds, and every message on the way to it: how often each value that was given counts.

A sum is linear. So the submission is called again on inputs of which one is 16**d and all others are 0, or belong to
other digits: digit d of what comes out, in base 16, says how often that input counts. This explains a result that has
lost its points already. It decides nothing, and it says nothing unless its counts come to that result, value by value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from grader.ranks.program import CallResult, Strided
from grader.submission import Source
from grader.trace.events import Operation, Trace
from grader.worlds.cases import Case
from grader.worlds.ranks import RankBench

Array = np.ndarray[Any, Any]
DIGITS = {"float64": 13, "int64": 15}  # of base 16 that a value of the type holds exactly
BITS = 4  # of a digit
MOST_CALLS = 32
SCALE = 2**8  # floating-point inputs are multiples of its inverse (see `sums.values`)
END = 1 << 60  # later than all that a rank does


@dataclass(frozen=True)
class Message:
    """One message: who sent it, as which operation, who got it, at which places of their own order and at which lines.

    `holds` says how often each value that was given counts in each element, [element, rank, position]; None where the
    message carried something else.
    """

    sender: int
    number: int
    receiver: int
    left: int
    came: int
    sent_line: int
    line: int
    holds: Array | None


@dataclass(frozen=True)
class Held:
    """What was held after a call, [rank, element, rank that gave it, position], and by its messages, in the order in
    which they were sent; `source` is the learner's file, to quote."""

    after: Array
    messages: tuple[Message, ...]
    source: Source

    @property
    def ranks(self) -> int:
        return len(self.after)

    def sent(self, rank: int, since: int = -1) -> list[Message]:
        """What `rank` sent after that place of its order, as far as it is known what that was."""
        return [m for m in self.messages if m.sender == rank and m.left > since and m.holds is not None]

    def got(self, rank: int, before: int = END) -> list[Message]:
        """What `rank` had received before that place of its order, in the order of its receives."""
        found = [m for m in self.messages if m.receiver == rank and m.came < before and m.holds is not None]
        return sorted(found, key=lambda message: message.came)


def look(bench: RankBench, case: Case, result: CallResult) -> Held | None:
    """What the wrong `result` of a call is made of; None where that cannot be told for certain."""
    tensor, program = case.tensors[0], bench.program
    dtype, total = tensor.storage.dtype, case.ranks * tensor.numel
    digits = DIGITS.get(dtype.name, 0)
    if not 0 < total <= MOST_CALLS * digits:
        return None
    starts = range(0, total, digits)
    calls = bench.again(case, [_coded(case, start, digits) for start in starts] + [_coded(case, total, digits)])
    if len(calls) != len(starts) + 1:
        return None
    outputs = [_outputs(case, call) for call in (*calls, result)]
    if any(each is None for each in outputs):
        return None
    shape = case.ranks, tensor.numel
    counts = _counts(outputs[:-2], digits, shape)
    if counts is None or not _comes_to(counts, case, outputs[-1]):
        return None
    messages = tuple(_messages(calls, dtype, digits, shape))
    return Held(counts.reshape(*shape, *shape), messages, Source(program.file, program.source))


def _coded(case: Case, start: int, digits: int) -> tuple[tuple[Any, ...], ...]:
    """The arguments of `case`, with a code in the places `start` and after of all ranks' elements in a row."""
    tensor = case.tensors[0]
    code = np.zeros(case.ranks * tensor.numel, tensor.storage.dtype)
    stop = min(start + digits, len(code))
    code[start:stop] = 1 << BITS * np.arange(max(stop - start, 0), dtype=np.int64)
    arguments = []
    for given, row in zip(case.arguments, code.reshape(case.ranks, -1), strict=True):
        like: Strided = given[0]
        blank = Strided(np.zeros_like(like.storage), like.shape, like.stride, like.offset)
        blank.view()[...] = row.reshape(like.shape)
        arguments.append((blank, *given[1:]))
    return tuple(arguments)


def _outputs(case: Case, call: CallResult) -> Array | None:
    """Every rank's tensor after a call, in a row; None if one has another type or shape now."""
    found = [given[0] for given in call.arguments]
    for now, before in zip(found, case.tensors, strict=True):
        if not isinstance(now, Strided) or now.shape != before.shape or now.storage.dtype != before.storage.dtype:
            return None
    return np.concatenate([tensor.view().ravel() for tensor in found])


def _counts(rows: Sequence[Array | None], digits: int, shape: tuple[int, int]) -> Array | None:
    """From the same values in the runs on all codes to counts, [value, rank, position], of `shape` in the last two."""
    parts = []
    for row in rows:
        if row is None or not ((row >= 0) & (row < 2.0**60)).all():  # nor is NaN
            return None
        whole = row.astype(np.int64)
        if not np.array_equal(whole, row):
            return None
        if (whole >> BITS * digits).any():
            return None
        parts.append(whole[:, None] >> BITS * np.arange(digits) & (1 << BITS) - 1)
    return np.concatenate(parts, axis=1)[:, : shape[0] * shape[1]].reshape(-1, *shape)


def _comes_to(counts: Array, case: Case, outputs: Array | None) -> bool:
    """Whether the values that were given, counted so, are the result."""
    given = np.concatenate([tensor.view().ravel() for tensor in case.tensors])
    scale = SCALE if given.dtype.kind == "f" else 1
    with np.errstate(all="ignore"):
        total = counts.reshape(len(counts), -1) @ (given * scale).astype(np.int64)
        return outputs is not None and np.array_equal(total, outputs * scale)


# ---- messages


def _messages(calls: Sequence[CallResult], dtype: np.dtype[Any], digits: int, shape: tuple[int, int]) -> list[Message]:
    """Every message of the calls, which are the same call on all codes and, as the last, on zeros alone."""
    trace = calls[0].trace
    if any(_outline(call.trace) != _outline(trace) for call in calls):
        return []
    posted, waited = _places(trace)
    found = []
    for send, recv in sorted(trace.messages, key=lambda pair: (pair[0].posted, pair[0].rank)):
        carried = [call.trace.carried.get((send.rank, send.number)) for call in calls]
        holds = None
        if send.dtype == recv.dtype == dtype.name and all(each is not None and len(each) % 8 == 0 for each in carried):
            rows = [np.frombuffer(each or b"", dtype) for each in carried]
            holds = None if rows[-1].any() else _counts(rows[:-1], digits, shape)
        left, came = posted[id(send)], waited.get(id(recv), END)
        found.append(Message(send.rank, send.number, recv.rank, left, came, send.line, recv.line, holds))
    return found


def _outline(trace: Trace) -> list[tuple[int, int, int, int, int]]:
    """What must be the same in all calls, for their messages to be the same."""
    return [(op.rank, op.number, op.kind, op.peer, op.size) for op in trace.all_operations()]


def _places(trace: Trace) -> tuple[dict[int, int], dict[int, int]]:
    """By id(operation), the place in its rank's order at which it was posted, and at which it was waited for."""
    posted: dict[int, int] = {}
    waited: dict[int, int] = {}
    for steps in trace.steps:
        for place, step in enumerate(steps):
            operation: Operation = step.operation
            (posted if step.what == "post" else waited).setdefault(id(operation), place)
    return posted, waited
