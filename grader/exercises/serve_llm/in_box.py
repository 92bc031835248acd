"""Runs a learner's engine on a trace, in virtual time, and writes down what forward sees and step returns. It decides
nothing: times, events and every slot of the cache are worked out again outside, from what was written down."""

from __future__ import annotations

from typing import Any

from grader.serving.run import Trace, serve


def served(make: Any, told: list[Any], most_steps: int) -> list[list[Any]]:
    """Every step (see `grader.serving.run`)."""
    return serve(make, Trace.of(told), most_steps)
