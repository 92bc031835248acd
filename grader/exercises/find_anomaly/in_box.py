"""Calls the learner's function with a history, and writes down what it returned. It decides nothing."""

from __future__ import annotations

from typing import Any

MOST_PAIRS, MOST_INDICES = 50, 20_000


def found(find_anomaly: Any, history: list[dict[str, Any]]) -> dict[str, Any]:
    """What the function returned: its type, and its pairs, each a name and a list of indices or what stands there."""
    answer = find_anomaly(history)
    kind = "None" if answer is None else type(answer).__name__
    pairs = [_pair(pair) for pair in answer[:MOST_PAIRS]] if isinstance(answer, (list, tuple)) else []
    return {"kind": kind, "pairs": pairs}


def _pair(pair: Any) -> dict[str, Any]:
    if not isinstance(pair, (list, tuple)) or len(pair) != 2:
        return {"kind": type(pair).__name__, "name": None, "witness": None}
    name, witness = pair
    witness = witness.tolist() if hasattr(witness, "tolist") else witness
    if not isinstance(witness, (list, tuple)):
        return {"kind": type(witness).__name__, "name": str(name), "witness": None}
    return {"kind": "", "name": str(name), "witness": [_plain(index) for index in witness[:MOST_INDICES]]}


def _plain(index: Any) -> Any:
    """An index as an int, also one of numpy; what is none as text."""
    index = index.item() if hasattr(index, "item") and getattr(index, "ndim", 0) == 0 else index
    return index if isinstance(index, int) and not isinstance(index, bool) else repr(index)[:60]
