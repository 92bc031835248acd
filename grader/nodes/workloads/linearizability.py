"""The one place that asks the checker of histories, which this package can be without."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from types import ModuleType

from grader.nodes.workloads.workload import Band, Event, Judgement

HISTORIES = "grader.nodes.histories"
MODEL = "kv"


def there() -> bool:
    """Whether there is a checker."""
    return importlib.util.find_spec(HISTORIES) is not None


def check(events: Sequence[Event]) -> Judgement:
    """Whether the events of a key-value store are linearizable; "unknown" where that took too many steps."""
    if not there():
        return Judgement("unknown", "there is no checker of histories here: write them with --history and check those")
    found = _part("checker").linearizable(_part("history").pair(events), MODEL)
    return Judgement(found.valid, found.reason or "one order of all requests explains every answer")


def picture(events: Sequence[Event], faults: Sequence[Band]) -> str:
    """The operations around what no order explains, as SVG; "" where there is no checker."""
    if not there():
        return ""
    operations = _part("history").pair(events)
    checked = _part("checker").linearizable(operations, MODEL)
    bands = [_part("view").Fault(each.start, each.end, each.label, each.nodes) for each in faults]
    return str(_part("picture").svg(checked, operations, "What no order explains", bands))


def _part(name: str) -> ModuleType:
    return importlib.import_module(f"{HISTORIES}.{name}")
