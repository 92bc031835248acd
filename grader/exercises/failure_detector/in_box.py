"""Makes a learner's detectors, gives them heartbeats at the times that it is told, and asks. It decides nothing."""

from __future__ import annotations

from typing import Any


def watch(make: Any, detectors: list[list[Any]], events: list[list[Any]]) -> dict[str, Any]:
    """What phi and alive say wherever they are asked; an event is a detector's number, what happens to it, and when."""
    made = [make(window, threshold) for window, threshold in detectors]
    answers = []
    for which, what, now in events:
        if what == "heartbeat":
            made[which].heartbeat(now)
        else:
            phi = _plain(made[which].phi(now))
            answers.append([phi, _plain(made[which].alive(now))])
    return {"answers": answers}


def _plain(value: Any) -> Any:
    """A number or a truth value out of a tensor or an array, as Python's own."""
    try:
        return value.item()
    except (AttributeError, TypeError, ValueError, RuntimeError):
        return value
