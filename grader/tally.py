"""What checks measure while they judge, kept beside their results: a judge in any world calls `note`.

It decides nothing. Where nobody collects (a judge that is called by itself), what is noted is forgotten.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from contextvars import ContextVar

from grader.verdict import Measured

_noted: ContextVar[dict[str, Measured] | None] = ContextVar("noted", default=None)


def note(
    what: str, yours: float, bound: float, unit: str = "", *, where: str = "", at_least: bool = False,
    reference: float | None = None, of: str = "",
) -> None:  # fmt: skip
    """Note a number beside what is allowed (see `Measured`): of several with the same `what` the worst of the last run,
    which `where` tells apart."""
    noted = _noted.get()
    if noted is None or not all(math.isfinite(each) for each in (yours, bound, reference or 0)):
        return
    before = noted.get(what)
    worse = before is None or before.where != where or (yours < before.yours if at_least else yours > before.yours)
    if worse:
        noted[what] = Measured(what, float(yours), float(bound), unit, where, at_least, reference, of)


def note_again(noted: dict[str, Measured]) -> None:
    """Note what was collected apart, as one more run."""
    for one in noted.values():
        note(one.what, one.yours, one.bound, one.unit, where=one.where, at_least=one.at_least,
             reference=one.reference, of=one.of)  # fmt: skip


@contextlib.contextmanager
def collected() -> Iterator[dict[str, Measured]]:
    """What is noted inside, by its name: also in works that are done side by side, which copy the context."""
    noted: dict[str, Measured] = {}
    token = _noted.set(noted)
    try:
        yield noted
    finally:
        _noted.reset(token)
