"""The strict reading of Markdown files that questions and rounds share: front matter, headings, keys, lists."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from grader.quiz.deck import DeckError

_FIELD = re.compile(r"([a-z]+):[ \t]+(\S.*)")
_FENCE = re.compile(r" {0,3}(`{3,}(?=[^`]*$)|~{3,})(.*)")
_ID = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")

Line = tuple[int, str]  # its number in the file, from 1, and its text


class BrokenError(Exception):
    """What is wrong at a line."""

    def __init__(self, line: int, what: str) -> None:
        super().__init__(line, what)
        self.line, self.what = line, what


def broken(line: int, what: str) -> NoReturn:
    raise BrokenError(line, what)


@dataclass(frozen=True)
class Section:
    """A heading, where it is, and the lines below it up to the next one of its depth or above."""

    line: int
    name: str
    lines: tuple[Line, ...]

    @property
    def text(self) -> str:
        return text_of(self.lines)


def read(path: Path) -> str:
    """The text of a file. Raises DeckError, FILE and why."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise DeckError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise DeckError(f"{path}: not UTF-8") from None


def lines_of(text: str) -> list[Line]:
    return list(enumerate(text.replace("\r\n", "\n").split("\n"), start=1))


def text_of(lines: Sequence[Line]) -> str:
    return "\n".join(text.rstrip() for _, text in lines).strip("\n")


def front_matter(
    lines: Sequence[Line], required: Sequence[str], optional: Sequence[str] = ()
) -> tuple[dict[str, str], list[Line]]:
    """The keys between two lines `---`, and what follows them."""
    if lines[0][1].rstrip() == "---":
        for at, (_, text) in enumerate(lines[1:], start=1):
            if text.rstrip() == "---":
                return fields(lines[1:at], 1, required, optional), list(lines[at + 1 :])
    keys = ", ".join(f"`{key}:`" for key in required)
    broken(1, f"the file begins with {keys} between two lines `---`")


def fields(lines: Sequence[Line], line: int, required: Sequence[str], optional: Sequence[str] = ()) -> dict[str, str]:
    """The `key: value` lines of whatever begins at `line`."""
    found: dict[str, str] = {}
    known = (*required, *optional)
    for number, text in lines:
        match = _FIELD.fullmatch(text.rstrip())
        if match is None:
            broken(number, f"expected `key: value`, not {text.strip()!r}")
        if match[1] not in known:
            broken(number, f"unknown key {match[1]!r}; known here: {', '.join(known)}")
        if match[1] in found:
            broken(number, f"{match[1]!r} is said twice")
        found[match[1]] = match[2]
    if missing := [key for key in required if key not in found]:
        broken(line, f"{' and '.join(map(repr, missing))} is missing")
    return found


def leading_fields(
    section: Section, required: Sequence[str], optional: Sequence[str] = ()
) -> tuple[dict[str, str], list[Line]]:
    """The keys right below a heading, up to the first empty line; and the rest."""
    end = next((at for at, (_, text) in enumerate(section.lines) if not text.strip()), len(section.lines))
    return fields(section.lines[:end], section.line, required, optional), list(section.lines[end:])


def sections(lines: Sequence[Line], depth: int) -> tuple[list[Line], list[Section]]:
    """What stands before the first heading of `depth`, and the sections; headings in code fences are none."""
    mark = "#" * depth + " "
    starts, fence, opened = [], "", 0
    for index, (number, text) in enumerate(lines):
        match = _FENCE.fullmatch(text)
        if fence:
            if match and match[1].startswith(fence) and not match[2].strip():
                fence = ""
        elif match:
            fence, opened = match[1], number
        elif text.startswith(mark):
            starts.append(index)
    if fence:
        broken(opened, "this code fence is never closed")
    ends = [*starts[1:], len(lines)]
    found = [
        Section(lines[a][0], lines[a][1][len(mark) :].strip(), tuple(lines[a + 1 : b]))
        for a, b in zip(starts, ends, strict=True)
    ]
    return list(lines[: starts[0]] if starts else lines), found


def items(section: Section, least: int) -> list[Line]:
    """The items of a section that is one list with `- `; lines that go on are indented. Raises where there are few."""
    found: list[Line] = []
    for number, text in section.lines:
        if text.startswith("- "):
            found.append((number, text[2:].strip()))
        elif found and text.startswith("  ") and text.strip():
            found[-1] = (found[-1][0], f"{found[-1][1]} {text.strip()}")
        elif text.strip():
            broken(number, f"{section.name!r} is a list: each line begins with `- `, or goes on indented by two")
    if len(found) < least:
        broken(section.line, f"{section.name!r} has {len(found)} of at least {least}")
    for number, text in found:
        if not text:
            broken(number, f"an item of {section.name!r} is empty")
    return found


def is_id(text: str) -> bool:
    return bool(_ID.fullmatch(text))
