"""Expected against got, element by element where a diagnosis tells a tensor's values."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from grader.verdict import Diagnosis

_MOST_ELEMENTS = 64
_TOKEN = re.compile(r"\s*(?:([\[\],])|([^\s\[\],()]+)(?:\s*\(([^()]*)\))?)\s*")
_ELEMENT = re.compile(r"element (\d+|\[[\d, ]+\]) = (.+)", re.DOTALL)


@dataclass(frozen=True)
class _Told:
    """One element: where it stands, its value, and what is said of it."""

    place: str
    value: str
    note: str = ""


def elements(found: Diagnosis) -> list[dict[str, Any]]:
    """Expected and got, element by element; empty where the diagnosis does not tell both so."""
    right, wrong = _elements(found.expected or ""), _elements(found.got or "")
    if [told.place for told in right] != [told.place for told in wrong]:
        return []
    return [
        {"place": wanted.place, "expected": wanted.value, "got": came.value, "differs": wanted.value != came.value,
         "said": came.note, "note": came.note not in ("", "wrong")}
        for wanted, came in zip(right, wrong, strict=True)
    ]  # fmt: skip


def _elements(text: str) -> list[_Told]:
    """The elements that `text` tells: "[1.5, 2.0 (rank 1 alone)]", nested lists, or "element 3 = 1.5"."""
    one = _ELEMENT.fullmatch(text)
    if one:
        return [_Told(one[1], one[2])]
    try:
        found = list(_nested(text)) if text.startswith("[") and len(text) < 8000 else []
    except ValueError:
        return []
    return found if len(found) <= _MOST_ELEMENTS else []


def _nested(text: str) -> Iterator[_Told]:
    """The elements of a nested list. Raises ValueError where it is none."""
    at: list[int] = []
    place, closed = 0, False
    while place < len(text):
        token = _TOKEN.match(text, place)
        if token is None or closed:
            raise ValueError(text)
        place = token.end()
        sign, value, note = token.groups()
        if sign == "[":
            at.append(0)
        elif not at:
            raise ValueError(text)
        elif sign == "]":
            at.pop()
            closed = not at
        elif sign == ",":
            at[-1] += 1
        else:
            where = str(at[0]) if len(at) == 1 else f"[{', '.join(map(str, at))}]"
            yield _Told(where, value, note or "")
    if not closed:
        raise ValueError(text)
