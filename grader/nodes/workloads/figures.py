"""Figures that every workload has: how many requests were answered, and how fast."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from grader.nodes.protocol import NO_SUCH_KEY, PRECONDITION_FAILED
from grader.nodes.workloads.workload import Call


def answered(call: Call) -> bool:
    """Whether the node served the request; that a key is missing or has another value is an answer, too."""
    return call.ok or call.error in (NO_SUCH_KEY, PRECONDITION_FAILED)


def quantile(values: Sequence[float], part: float) -> float:
    """The smallest of `values`, in ascending order, that `part` of them do not exceed (nearest rank)."""
    return values[max(0, -(-len(values) * int(part * 1000) // 1000) - 1)]


def spread(values: Sequence[float]) -> dict[str, float]:
    """Median, 95th percentile and greatest of some values in ascending order."""
    return {"median": quantile(values, 0.5), "p95": quantile(values, 0.95), "max": values[-1]}


def figures(calls: Sequence[Call]) -> dict[str, Any]:
    """Requests by what ended them, the share that was answered, latency in milliseconds; final reads left out."""
    asked = [call for call in calls if not call.final]
    took = sorted(1000 * (call.end - call.start) for call in asked if answered(call) and call.end is not None)
    return {
        "operations": len(asked),
        "by_function": _by_function(asked),
        "availability": sum(map(answered, asked)) / len(asked) if asked else None,
        "latency_ms": spread(took) if took else None,
    }


def _by_function(calls: Sequence[Call]) -> dict[str, dict[str, int]]:
    counts: dict[str, Counter[str]] = {}
    for call in calls:
        counts.setdefault(call.f, Counter())[call.type] += 1
    return {f: {kind: count[kind] for kind in ("ok", "fail", "info")} for f, count in sorted(counts.items())}
