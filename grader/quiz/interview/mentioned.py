"""Which words of a rubric's point an answer never mentions: something to see beside one's own ticks, and no verdict."""

from __future__ import annotations

import re

_MOST = 5  # words that are told
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9]*")
_COMMON = frozenset(
    _WORD.findall(
        """
        about after again against also always another anybody anything because become becomes been before
        being below between both cannot could does doing done down each either else enough even every
        everybody everything exactly first from given gives goes have having here itself just keep kept know
        known knows least less like made make makes many means might more most much must name named names need
        needs neither never nobody none nothing often once only other others over same says second several
        shall should since some something still such take taken takes than that their them then there these
        they thing things third this those though three through told under until upon used uses using very
        want wants well were what whatever when where whether which while whole whose will with within without
        would your
        """
    )
)


def missing(point: str, answer: str) -> list[str]:
    """The words of `point` (Markdown) that `answer` has in no form, in order; none where nothing was written.

    Short words and common ones say nothing, unless they are abbreviations. Words are the same if they begin alike:
    "scaling" and "scale", "messages" and "message". So some that are missing are not told, and none that is there is.
    """
    said = {word.lower() for word in _WORD.findall(answer)}
    if not said:
        return []
    found: dict[str, str] = {}
    for word in _WORD.findall(point):
        name = word.lower()
        if word.isupper() and len(word) > 1:
            begins = name
        elif len(word) < 4 or name in _COMMON:
            continue
        else:
            begins = name[: max(4, round(0.6 * len(name)))]
        if not any(other.startswith(begins) for other in said):
            found.setdefault(begins, word)
    return list(found.values())


def said(point: str, answer: str) -> str:
    """The same as Markdown that is put after the point; empty where nothing is missing."""
    words = missing(point, answer)[:_MOST]
    return f" *(not in your answer: {', '.join(words)})*" if words else ""
