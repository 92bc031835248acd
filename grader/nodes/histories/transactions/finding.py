"""The anomalies of a history, and whether it is isolated as a level asks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from grader.nodes.histories.transactions import cycles, dependencies, levels
from grader.nodes.histories.transactions.parts import Anomaly
from grader.nodes.histories.transactions.transaction import Transaction


@dataclass(frozen=True)
class Judged:
    """Whether a history is as its level asks, and if not, the anomalies that the level forbids, the gravest first."""

    valid: bool
    anomalies: tuple[Anomaly, ...]
    isolation: str
    workload: str


def find(
    transactions: Sequence[Transaction],
    workload: str = "list-append",
    real_time: bool = False,
    sessions: bool = False,
    linearizable_keys: bool = False,
    unread: bool = False,
) -> list[Anomaly]:
    """The anomalies of a history, each kind once, with the smallest witness; see `cycles` for what each means exactly.

    Cycles along real time and sessions are looked for only if asked for. `unread` (lists only) also counts appends that
    took effect and that no read shows as later than all that was read. Raises as `dependencies.graph` does.
    """
    made = dependencies.graph(transactions, workload, real_time, sessions, linearizable_keys, unread)
    return [*made.anomalies, *cycles.cycles(made)]


def check(
    transactions: Sequence[Transaction],
    isolation: str = "serializable",
    workload: str = "list-append",
    linearizable_keys: bool = False,
) -> Judged:
    """Whether a history has none of the anomalies that an isolation level forbids (see `levels`).

    For lists on the levels serializable and above, `valid` says exactly whether some order of the transactions explains
    the history. (Appends that no read shows are taken into account; only of a key for which more than 10,000 pairs of
    such an append and a read of the last version known are possible, some are left out.) For registers it is True where
    no anomaly follows from the versions that could be put in order (see `registers`).

    Raises as `dependencies.graph` does, and ValueError for an unknown level.
    """
    level = levels.level(isolation)
    found = find(transactions, workload, level.real_time, level.sessions, linearizable_keys, unread=True)
    forbidden = tuple(one for one in found if one.kind in level.forbids)
    return Judged(not forbidden, forbidden, isolation, workload)
