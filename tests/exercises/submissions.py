"""The example submissions of every exercise: right ones, and wrong ones whose header says what must be found."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from grader.verdict import KINDS

TESTS = Path(__file__).parents[1]
_DOCSTRING = re.compile(r'\A"""(.+?)"""', re.DOTALL)  # not by ast: a mutant may be no Python
_FIELD = re.compile(r"^(\w+): *(.*)$")
_FIELDS = {"check", "kind", "only", "heavy"}


class BadHeader(Exception):  # noqa: N818 - reads as what is wrong with the file
    """A mutant does not say which bug it has and what must be found."""


@dataclass(frozen=True)
class Expected:
    """A mutant's header: its bug in a sentence, the check that must catch it and the kind of that diagnosis.

    There are several kinds ("timeout or too_few_bytes") where it depends on how well the machine can keep ranks apart.
    `only` says that no other check may lose points, `heavy` that it takes long.
    """

    bug: str
    check: str
    kinds: tuple[str, ...]
    only: bool
    heavy: bool


def header(text: str) -> Expected:
    """What a mutant's docstring says. Raises BadHeader."""
    docstring = _DOCSTRING.match(text)
    if not docstring:
        raise BadHeader("it does not begin with a docstring")
    bug, *rest = docstring[1].strip().splitlines()
    if _FIELD.match(bug) or not bug.endswith("."):
        raise BadHeader(f"its first line is not a sentence that says the bug: {bug!r}")
    fields: dict[str, str] = {}
    for line in filter(None, map(str.strip, rest)):
        field = _FIELD.match(line)
        if not field or field[1] not in _FIELDS or field[1] in fields:
            raise BadHeader(f"{line!r} is none of 'check: NAME', 'kind: KIND', 'only: yes', 'heavy: yes', each once")
        fields[field[1]] = field[2]
    for name in ("check", "kind"):
        if not fields.get(name):
            raise BadHeader(f"the line '{name}: ...' is missing")
    kinds = tuple(fields["kind"].split(" or "))
    if not KINDS.issuperset(kinds):
        raise BadHeader(f"{fields['kind']!r} is no kind of diagnosis")
    for name in ("only", "heavy"):
        if fields.get(name, "yes") != "yes":
            raise BadHeader(f"'{name}: {fields[name]}': leave the line out or write '{name}: yes'")
    return Expected(bug, fields["check"], kinds, "only" in fields, "heavy" in fields)


def files(folder: str, exercise: str | None = None) -> list[Path]:
    """The submissions in tests/`folder`, of all exercises or of one."""
    return sorted((TESTS / folder).glob(f"{exercise or '*'}/*.py"))


def name(path: Path) -> str:
    """ "ring_all_reduce/whole_tensors": a readable id for a test."""
    return f"{path.parent.name}/{path.stem}"
