"""The strict reading of Markdown files that questions and rounds share: front matter, headings, keys, lists."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from grader.quiz.deck import DeckError
from grader.quiz.lines import BrokenError, Lines, broken, is_rule, text_of, unfenced

_FIELD = re.compile(r"([a-z]+):[ \t]+(\S.*)")
_ID = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


@dataclass(frozen=True)
class Section:
    """A heading, where it is, and the lines below it up to the next one of its depth or above."""

    line: int
    name: str
    lines: Lines

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


def lines_of(text: str) -> Lines:
    return list(enumerate(text.replace("\r\n", "\n").split("\n"), start=1))


def front_matter(lines: Lines, required: Sequence[str], optional: Sequence[str] = ()) -> tuple[dict[str, str], Lines]:
    """The keys between two lines `---`, and what follows them."""
    if is_rule(lines[0][1]):
        for at, (_, text) in enumerate(lines[1:], start=1):
            if is_rule(text):
                return fields(lines[1:at], 1, required, optional), lines[at + 1 :]
    keys = ", ".join(f"`{key}:`" for key in required)
    raise BrokenError(1, f"the file begins with {keys} between two lines `---`")


def fields(lines: Lines, line: int, required: Sequence[str], optional: Sequence[str] = ()) -> dict[str, str]:
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
) -> tuple[dict[str, str], Lines]:
    """The keys right below a heading, up to the first empty line; and the rest."""
    end = next((at for at, (_, text) in enumerate(section.lines) if not text.strip()), len(section.lines))
    return fields(section.lines[:end], section.line, required, optional), section.lines[end:]


def sections(lines: Lines, depth: int) -> tuple[Lines, list[Section]]:
    """What stands before the first heading of `depth`, and the sections; headings in code fences are none."""
    mark = "#" * depth + " "
    starts = [index for index, (_, text) in unfenced(lines) if text.startswith(mark)]
    ends = [*starts[1:], len(lines)]
    found = [
        Section(lines[a][0], lines[a][1][len(mark) :].strip(), lines[a + 1 : b])
        for a, b in zip(starts, ends, strict=True)
    ]
    return lines[: starts[0]] if starts else lines, found


def items(section: Section, least: int) -> Lines:
    """The items of a section that is one list with `- `; lines that go on are indented. Raises where there are few."""
    found: Lines = []
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
