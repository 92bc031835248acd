"""Transactions, as clients saw them: what was asked, what came back, and when."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from grader.nodes.histories.history import NEVER, Key, Process

Status = Literal["ok", "fail", "info"]
Workload = Literal["list-append", "rw-register"]

WORKLOADS: tuple[Workload, ...] = ("list-append", "rw-register")


@dataclass(frozen=True, slots=True)
class Op:
    """One operation in a transaction: `f` is "append" (of `value` to a list), "w" (a register becomes `value`) or "r".

    The value of a read is what it returned. Of a list that is a tuple, `()` if nothing was there, and None if nobody
    knows. Of a register it is None as long as nothing was written, which only reads of ok transactions say.
    """

    f: Literal["append", "r", "w"]
    key: Key
    value: Any


@dataclass(frozen=True, slots=True)
class Transaction:
    """One transaction: `index` is its name, a unique integer.

    `status`: "ok" (took effect), "fail" (did not), "info" (nobody knows). `called` and `returned` are the places of
    its two events among all events of the history; only real-time and session order read them.
    """

    index: int
    process: Process
    status: Status
    ops: tuple[Op, ...]
    called: int = 0
    returned: float = NEVER


def positions(transactions: Sequence[Transaction]) -> dict[int, int]:
    """By index, the place in the sequence. Raises ValueError if two have one index."""
    places = {one.index: at for at, one in enumerate(transactions)}
    if len(places) < len(transactions):
        raise ValueError("two transactions have the same index")
    return places
