"""Calls the planner with a model and a cluster as objects, and writes down the plan's fields."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from grader.planning import ClusterSpec, ModelSpec, Plan


def planned(plan: Any, model: dict[str, Any], cluster: dict[str, Any]) -> dict[str, Any]:
    """The fields of the plan that was returned, those that it has."""
    found = plan(ModelSpec(**model), ClusterSpec(**cluster))
    names = [field.name for field in fields(Plan)]
    kind = "None" if found is None else f"a {type(found).__name__}"
    return {"kind": kind, "fields": {name: _plain(getattr(found, name)) for name in names if hasattr(found, name)}}


def _plain(value: Any) -> Any:
    """A number of numpy or torch as Python's own."""
    return value.item() if hasattr(value, "item") and getattr(value, "ndim", 0) == 0 else value
