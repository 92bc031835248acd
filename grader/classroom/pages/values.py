"""Expected against got: element by element where a diagnosis tells a tensor's values, else side by side."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from grader.classroom.pages.words import safe
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


def compared(found: Diagnosis) -> str:
    """HTML that shows what was expected and what came instead; empty where the diagnosis tells neither."""
    if not found.expected and not found.got:
        return ""
    right, wrong = _elements(found.expected or ""), _elements(found.got or "")
    if right and wrong and [told.place for told in right] == [told.place for told in wrong]:
        return _table(right, wrong)
    told = [("Expected", found.expected, ""), ("Got", found.got, ' class="bad"')]
    parts = [f"<div{look}><dt>{word}</dt><dd>{safe(text, 1500)}</dd></div>" for word, text, look in told if text]
    return f'<dl class="compared">{"".join(parts)}</dl>'


def _table(right: list[_Told], wrong: list[_Told]) -> str:
    notes = any(told.note not in ("", "wrong") for told in wrong)
    rows = []
    for wanted, came in zip(right, wrong, strict=True):
        differs = wanted.value != came.value
        mark = '<span class="mark" aria-label="wrong">✗</span>' if differs else ""
        told = f'<td class="told">{safe(came.note)}</td>' if notes else ""
        look = ' class="bad"' if differs else ""
        cells = (
            f'<th scope="row">{safe(wanted.place)}</th><td class="n" data-is="expected">{safe(wanted.value)}</td>'
            f'<td class="n" data-is="got">{safe(came.value)}</td><td class="sign">{mark}</td>{told}'
        )
        rows.append(f"<tr{look}>{cells}</tr>")
    head = '<th scope="col">that is</th>' if notes else ""
    return (
        '<div class="scroll" tabindex="0" role="group" aria-label="Expected and got"><table class="values"><thead><tr>'
        '<th scope="col">element</th><th scope="col" class="n">expected</th><th scope="col" class="n">got</th>'
        f"<td></td>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


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
