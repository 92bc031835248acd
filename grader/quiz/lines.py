"""The numbered lines of a deck's file: which of them are code, and what is wrong at one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NoReturn

_FENCE = re.compile(r" {0,3}(`{3,}(?=[^`]*$)|~{3,})(.*)")

Line = tuple[int, str]  # its number in the file, from 1, and its text
Lines = list[Line]


class BrokenError(Exception):
    """What is wrong, and at which line of the file."""

    def __init__(self, line: int, what: str) -> None:
        super().__init__(line, what)
        self.line, self.what = line, what


def broken(line: int, what: str) -> NoReturn:
    raise BrokenError(line, what)


def is_rule(text: str) -> bool:
    return text.rstrip() == "---"


def fences(lines: Lines) -> Iterator[tuple[int, int]]:
    """(index of the opening line, index of the closing one) of each code fence (CommonMark 0.31, section 4.5)."""
    fence, opened = "", 0
    for index, (_, text) in enumerate(lines):
        found = _FENCE.fullmatch(text)
        if fence:
            if found and found[1].startswith(fence) and not found[2].strip():
                fence = ""
                yield opened, index
        elif found:
            fence, opened = found[1], index
    if fence:
        broken(lines[opened][0], "this code fence is never closed")


def unfenced(lines: Lines) -> Iterator[tuple[int, Line]]:
    """(index, line) of the lines outside of code fences."""
    at = 0
    for first, last in fences(lines):
        yield from ((index, lines[index]) for index in range(at, first))
        at = last + 1
    yield from ((index, lines[index]) for index in range(at, len(lines)))


def text_of(lines: Lines) -> str:
    """The lines as one text, without the empty ones around it."""
    return "\n".join(text if text.strip() else "" for _, text in lines).strip("\n")
