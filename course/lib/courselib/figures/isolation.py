"""Transactions that a reader steps, operation by operation, and what each isolation level makes of the order."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from courselib import anomalies
from courselib.figures.shown import figure
from courselib.interleaved import play
from courselib.isolation import LEVELS


def isolation(scenario: str = "write skew", level: str = "snapshot", order: str | None = None) -> Any:
    """Buttons that step T1, T2 and T3 through a scenario of `anomalies`, under each of `anomalies.STEPPED`."""
    told = anomalies.SCENARIOS[scenario]
    order = told.order if order is None else order
    played = play(told.texts, order, level, told.initial)
    return figure(
        "isolation",
        anomalies.drawn(played, "Transactions, step by step"),
        question="Which of the levels let both doctors go off call, and which operation does each of the others stop? "
        "Is there an order of write skew in which snapshot isolation does no harm?",
        answer="None, read committed and snapshot isolation let it happen. SSI refuses the second commit. Two-phase "
        "locking stops at the first write, which waits for the other's read lock; the second write closes a deadlock. "
        "Every order in which one transaction commits before the other one begins is harmless at each level, so tests "
        "that run one transaction at a time never find write skew.",
        scenarios={name: asdict(each) for name, each in anomalies.SCENARIOS.items()},
        levels={level: LEVELS[level] for level in anomalies.STEPPED},
        scenario=scenario, level=level, order=order,
    )  # fmt: skip
