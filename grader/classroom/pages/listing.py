"""The learner's source on a page: once, with numbers, the marked lines with what is said of them, the rest folded."""

from __future__ import annotations

import io
import keyword
import tokenize
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from grader.classroom.pages.findings import Mark
from grader.classroom.pages.words import clean

SHOWN_WHOLE = 90  # lines up to which nothing is folded
AROUND = 5  # lines shown before and after a marked one
_MOST_FOLDED = 1500  # lines that the page carries folded; what is beyond is left out
_MOST_MARKED = 60
_MOST_COLUMNS = 300
_MOST_COLOURED = 200_000  # characters
_CLASSES = {tokenize.COMMENT: "c", tokenize.STRING: "s"}


def open_lines(count: int, marked: Iterable[int]) -> set[int]:
    """Which of `count` lines are shown open, given those that are marked."""
    if count <= SHOWN_WHOLE:
        return set(range(1, count + 1))
    chosen = sorted(set(marked))[:_MOST_MARKED] or [1]
    around = {near for line in chosen for near in range(line - AROUND, line + AROUND + 1)}
    if not set(marked):
        around = set(range(1, SHOWN_WHOLE // 2))
    return {line for line in around if 0 < line <= count}


def stretches(lines: Sequence[str], marks: Sequence[Mark]) -> Iterator[dict[str, Any]]:
    """The listing: stretches of lines that are open, folded, or left out; every line with its pieces and its marks."""
    told: dict[int, list[Mark]] = defaultdict(list)
    for mark in marks:
        told[mark.line].append(mark)
    shown = open_lines(len(lines), told)
    coloured = _coloured(lines)
    budget = _MOST_FOLDED
    for first, last, is_open in _stretches(len(lines), shown):
        count = last - first + 1
        words = f"line {first:,}" if count == 1 else f"lines {first:,} to {last:,}"
        left_out = not is_open and count > budget
        budget -= 0 if is_open or left_out else count
        rows = [] if left_out else [_line(lines, number, coloured, told) for number in range(first, last + 1)]
        yield {"open": is_open, "left_out": left_out, "words": words, "lines": rows}


def _stretches(count: int, shown: set[int]) -> Iterator[tuple[int, int, bool]]:
    """The lines in stretches, (first, last, open), a single folded line being open too."""
    first = 1
    for line in range(2, count + 2):
        is_open = first in shown
        if line > count or (line in shown) != is_open:
            yield first, line - 1, is_open
            first = line


def _line(
    lines: Sequence[str], number: int, coloured: dict[int, list[tuple[int, int, str]]], told: dict[int, list[Mark]]
) -> dict[str, Any]:
    text, found = lines[number - 1], told.get(number, [])
    tones = [mark.tone for mark in found]
    tone = next((tone for tone in ("blame", "also", "seen") if tone in tones), "")
    pieces, at = [], 0
    for since, until, look in coloured.get(number, []):
        until = min(until, _MOST_COLUMNS)
        if since >= until or since < at:
            continue
        pieces += [("", text[at:since]), (look, text[since:until])]
        at = until
    pieces.append(("", clean(text[at:], max(_MOST_COLUMNS - at, 0))))
    return {"number": number, "tone": tone, "pieces": pieces, "marks": found}


def _coloured(lines: Sequence[str]) -> dict[int, list[tuple[int, int, str]]]:
    """By line, the stretches that are comments, strings and keywords; up to where the text is no Python any more."""
    found: dict[int, list[tuple[int, int, str]]] = defaultdict(list)
    if sum(map(len, lines)) > _MOST_COLOURED:
        return found
    reader = io.StringIO("\n".join(lines) + "\n")
    try:
        for token in tokenize.generate_tokens(reader.readline):
            look = _CLASSES.get(token.type) or ("k" if keyword.iskeyword(token.string) else "")
            if not look:
                continue
            (top, left), (bottom, right) = token.start, token.end
            for row in range(top, bottom + 1):
                until = right if row == bottom else _MOST_COLUMNS
                found[row].append((left if row == top else 0, until, look))
    except (tokenize.TokenError, SyntaxError, ValueError, RecursionError):
        pass
    return found
