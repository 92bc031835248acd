"""Which of a submission's functions a harness calls by name, read off its text."""

from __future__ import annotations

import ast
from functools import cache


@cache
def of_submission(harness: str, by: str) -> frozenset[str]:
    """The names NAME of all `submission.NAME` that the harness's function or class `by` may come to."""
    parts = {part.name: part for part in ast.parse(harness).body if isinstance(part, ast.FunctionDef | ast.ClassDef)}
    met, found, ahead = set[str](), set[str](), [by]
    while ahead:
        name = ahead.pop()
        if name in met or name not in parts:
            continue
        met.add(name)
        for node in ast.walk(parts[name]):
            if isinstance(node, ast.Name):
                ahead.append(node.id)
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "submission":
                found.add(node.attr)
    return frozenset(found)
