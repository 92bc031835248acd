"""The learner's source on a page: once, with numbers, the marked lines with what is said of them, the rest folded."""

from __future__ import annotations

import io
import keyword
import tokenize
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from grader.classroom.pages.findings import Mark
from grader.classroom.pages.words import safe, sentence

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


def listing(lines: Sequence[str], marks: Sequence[Mark]) -> str:
    """The listing as HTML. Line 7 has the id L7; every mark leads to its finding, whose id is f and its number."""
    told: dict[int, list[Mark]] = defaultdict(list)
    for mark in marks:
        told[mark.line].append(mark)
    shown = open_lines(len(lines), told)
    coloured = _coloured(lines)
    budget = _MOST_FOLDED
    parts = []
    for first, last, is_open in _stretches(len(lines), shown):
        if is_open:
            parts += [_line(lines, number, coloured, told) for number in range(first, last + 1)]
            continue
        count = last - first + 1
        words = f"line {first:,}" if count == 1 else f"lines {first:,} to {last:,}"
        if count > budget:
            parts.append(f'<div class="gap">… {words} left out</div>')
            continue
        budget -= count
        hidden = "".join(_line(lines, number, coloured, told) for number in range(first, last + 1))
        parts.append(f'<details class="gap"><summary>… {words}</summary>{hidden}</details>')
    return (
        '<div class="code" tabindex="0" role="group" aria-label="Source, with marked lines"><div class="lines">'
        f"{''.join(parts)}</div></div>"
    )


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
) -> str:
    text, found = lines[number - 1], told.get(number, [])
    tones = [mark.tone for mark in found]
    tone = next((f" on {tone}" for tone in ("blame", "also", "seen") if tone in tones), "")
    pieces, at = [], 0
    for since, until, look in coloured.get(number, []):
        until = min(until, _MOST_COLUMNS)
        if since >= until or since < at:
            continue
        pieces.append(f'{safe(text[at:since])}<span class="{look}">{safe(text[since:until])}</span>')
        at = until
    pieces.append(safe(text[at:], max(_MOST_COLUMNS - at, 0)))
    row = f'<a href="#L{number}">{number}</a><code>{"".join(pieces)}</code>'
    return f'<div class="l{tone}" id="L{number}">{row}</div>{"".join(_note(mark) for mark in found)}'


def _note(mark: Mark) -> str:
    badges = "".join(
        f'<a class="badge" href="#f{number}" title="to number {number}">{number}</a>' for number in mark.findings
    )
    return f'<div class="note {mark.tone}">{badges}<span>{sentence(mark.words)}</span></div>'


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
