"""Files of submissions: Markdown, a section each, with a heading, a line of fields and one block of code.

    ## all_must_acknowledge: A write is confirmed when all nodes have it.
    check: available; kind: not_available; base: right/plain_1
    ```diff
    ...
    ```

What is in a block may be no Python; so nothing here parses it as such.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from grader.submission import BadRequest

_HEADING = re.compile(r"## (\w+): (\S.*\.)")
T = TypeVar("T")


class Bad(Exception):  # noqa: N818 - reads as what is wrong with a section
    """What is wrong with one section, and what to do."""


@dataclass(frozen=True)
class Section:
    """A section: its name, the sentences behind it, its fields, and its block: its fence and its lines."""

    name: str
    told: str
    fields: dict[str, str]
    fence: str
    body: list[str]


def read(
    text: str,
    file: str,
    known: Sequence[str],
    needed: Sequence[str],
    fences: Sequence[str],
    made: Callable[[Section], T],
) -> dict[str, T]:
    """What is `made` of each section, by its name; it may raise Bad. Fields are among the `known`, and the `needed` are
    there. Raises BadRequest with the file, the heading and what to do."""
    title, *parts = _split(text)
    found: dict[str, T] = {}
    if [line for line in title if line and not line.startswith("# ")]:
        raise BadRequest(f"{file}: only a title may come before the first '## name: bug.'")
    for part in parts:
        try:
            section = _section(part, known, needed, fences)
            one = made(section)
            if section.name in found:
                raise Bad("two submissions have this name; rename one")
        except Bad as error:
            raise BadRequest(f"{file}, '{part[0]}': {error}") from None
        found[section.name] = one
    return found


def _split(text: str) -> list[list[str]]:
    """The lines before the first heading, and those of each section; a heading in a block is none."""
    sections: list[list[str]] = [[]]
    inside = False
    for line in text.split("\n"):
        if line.startswith("## ") and not inside:
            sections.append([])
        inside ^= line.startswith("```")
        sections[-1].append(line)
    return sections


def _section(lines: list[str], known: Sequence[str], needed: Sequence[str], fences: Sequence[str]) -> Section:
    heading = _HEADING.fullmatch(lines[0])
    if not heading:
        raise Bad("write the heading as '## name: Sentence that says what is wrong.'")
    fields = _fields(lines[1] if len(lines) > 1 else "", known, needed)
    while lines[-1] == "":
        lines = lines[:-1]
    fence, body, end = lines[2] if len(lines) > 2 else "", lines[3:-1], lines[-1]
    if fence not in fences or end != "```" or any(line.startswith("```") for line in body):
        raise Bad(f"below that line write one block, from {' or '.join(fences)} to ```, and nothing else")
    return Section(heading[1], heading[2], fields, fence, body)


def _fields(line: str, known: Sequence[str], needed: Sequence[str]) -> dict[str, str]:
    """ "check: sum; kind: crash" as a dictionary, with all that must be there."""
    fields: dict[str, str] = {}
    for part in line.split("; "):
        key, colon, value = part.partition(": ")
        if not colon or key not in known or key in fields or not value:
            raise Bad(f"{part!r} is not one of {', '.join(sorted(known))}, each once, with '; ' between them")
        fields[key] = value
    for key in needed:
        if key not in fields:
            raise Bad(f"'{key}: ...' is missing in the line below the heading")
    return fields


def yes(fields: dict[str, str], key: str) -> bool:
    """Whether a field says yes. Raises Bad where it says anything else."""
    if fields.get(key, "yes") != "yes":
        raise Bad(f"'{key}: {fields[key]}': leave it out or write '{key}: yes'")
    return key in fields
