"""The example submissions of an exercise: its reference, other right ones, and wrong ones, which are diffs.

`wrong.md` in the exercise's folder holds the wrong ones, each under a heading:

    ## all_must_acknowledge: A write is confirmed when all nodes have it.
    check: available; kind: not_available; base: right/plain_1
    ```diff
    -            if self.majority(acknowledged):
    +            if all(acknowledged):
    ```

A diff has no line numbers: what a part of it (`@@` stands between two) keeps and removes is together in its base
exactly once. The base is the reference where none is named. A submission that came from outside stands whole, as
```python. It may be no Python; so nothing here parses it as such.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from grader import catalog, registry, submission
from grader.authoring import sections
from grader.authoring.sections import Bad, Section
from grader.submission import BadRequest, Submission
from grader.verdict import KINDS

REFERENCE = "reference"
WRONG = "wrong.md"
_DOCSTRING = re.compile(r'\A"""(.+?)"""\n*', re.DOTALL)
_FIELDS, _NEEDED = ("check", "kind", "only", "heavy", "base"), ("check", "kind")
_FENCES = ("```diff", "```python")


@dataclass(frozen=True)
class Wrong:
    """A wrong submission: its bug in a sentence, the check that must catch it and the kind of that diagnosis.

    There are several kinds ("timeout or too_few_bytes") where it depends on how well the machine can keep ranks apart.
    `only` says that no other check may lose points, `heavy` that it takes long. `base` is empty where it stands whole.
    """

    exercise: str
    name: str
    bug: str
    check: str
    kinds: tuple[str, ...]
    only: bool
    heavy: bool
    base: str
    source: str

    @property
    def id(self) -> str:
        """ "ring_all_reduce/whole_tensors": how it is asked for, and a readable id for a test."""
        return f"{self.exercise}/{self.name}"

    @property
    def submission(self) -> Submission:
        return Submission(self.source, f"{self.name}.py")


def reference(name: str) -> Submission:
    """The solution of the exercise's notebook."""
    return submission.read(catalog.solution_notebook(name), registry.find(name).function_names)


def right(name: str) -> list[Path]:
    """The other right solutions of an exercise."""
    return sorted((registry.folder(name) / "right").glob("*.py"))


def find(id_: str) -> Wrong:
    """The wrong submission "EXERCISE/NAME". Raises BadRequest if there is none."""
    name, _, wanted = id_.partition("/")
    there = {wrong.name: wrong for wrong in wrongs(name)}
    if wanted not in there:
        raise BadRequest(f"{name} has no wrong submission called {wanted!r}: `rankup exercise wrong {name}` lists them")
    return there[wanted]


@cache
def wrongs(name: str) -> tuple[Wrong, ...]:
    """The wrong submissions of an exercise. Raises BadRequest with the file, the heading and what to do."""
    path = registry.folder(name) / WRONG
    if not path.is_file():
        raise BadRequest(f"{path}: no such file; it must hold the wrong submissions to {name}")
    checks = [check.name for check in registry.find(name).checks]
    return read(path.read_text(), name, checks, bases(name), str(path))


def bases(name: str) -> dict[str, list[str]]:
    """What diffs of an exercise may be against, line by line: its reference and its other right solutions."""
    found = {f"right/{other.stem}": _lines(other.read_text()) for other in right(name)}
    return {REFERENCE: _lines(reference(name).source)} | found


def _lines(text: str) -> list[str]:
    """A base's lines: without the docstring that says how it does it, and without nbgrader's marks."""
    kept = [line for line in text.split("\n") if not line.strip().startswith("### ")]
    return _DOCSTRING.sub("", "\n".join(kept)).rstrip("\n").split("\n")


def read(
    text: str, name: str, checks: Sequence[str], bases: dict[str, list[str]], file: str = WRONG
) -> tuple[Wrong, ...]:
    """What a `wrong.md` says. Raises BadRequest with the file, the heading and what to do."""
    return tuple(
        sections.read(
            text, file, _FIELDS, _NEEDED, _FENCES, lambda section: _made(section, name, checks, bases)
        ).values()
    )


def _made(section: Section, name: str, checks: Sequence[str], bases: dict[str, list[str]]) -> Wrong:
    fields, body, whole = section.fields, section.body, section.fence == "```python"
    if fields["check"] not in checks:
        raise Bad(f"{name} has no check called {fields['check']!r}; it has {', '.join(checks)}")
    kinds = tuple(fields["kind"].split(" or "))
    if not KINDS.issuperset(kinds):
        raise Bad(f"{fields['kind']!r} is not a kind of diagnosis; between several kinds write ' or '")
    base = fields.get("base", "" if whole else REFERENCE)
    if whole and base:
        raise Bad("a ```python block has no base: leave the base out, or write ```diff")
    if not whole:
        body = applied(bases, base, body)
    only, heavy = sections.yes(fields, "only"), sections.yes(fields, "heavy")
    return Wrong(name, section.name, section.told, fields["check"], kinds, only, heavy, base, "\n".join(body) + "\n")


def applied(bases: Mapping[str, Sequence[str]], called: str, diff: Sequence[str]) -> list[str]:
    """The base that is called so as the diff changes it. Raises Bad."""
    if called not in bases:
        raise Bad(f"its base {called!r} does not exist; choose from {', '.join(bases)}")
    base = bases[called]
    edits = [edit for part in _parts(diff) for edit in _edits(base, part, called)]
    made: list[str] = []
    at = 0
    for begin, end, new in sorted(edits, key=lambda edit: edit[0]):
        if begin < at:
            raise Bad(f"two parts of its diff change line {begin + 1} of {called}; join the two parts")
        made += [*base[at:begin], *new]
        at = end
    return [*made, *base[at:]]


def _parts(diff: Sequence[str]) -> Iterator[list[str]]:
    """The parts of a diff, between which '@@' stands."""
    part: list[str] = []
    for line in [*diff, "@@"]:
        if line != "@@":
            part.append(line)
            continue
        if not any(line[:1] in ("+", "-") for line in part):
            raise Bad("a part of its diff changes nothing: begin added lines with + and removed lines with -")
        yield part
        part = []


def _edits(base: Sequence[str], part: Sequence[str], called: str) -> Iterator[tuple[int, int, list[str]]]:
    """What a part changes in the base: these lines become those."""
    for line in part:
        if line and line[0] not in " +-":
            raise Bad(f"{line!r} must begin with ' ', '+' or '-'; between two parts of a diff write @@")
    old = [line[1:] for line in part if line[:1] != "+"]
    starts = [at for at, line in enumerate(base) if old and line == old[0]]
    places = [at for at in starts if list(base[at : at + len(old)]) == old]
    if len(places) != 1:
        shown = next((line.strip() for line in old if line.strip()), "")
        what = "are not there" if not places else f"are there {len(places)} times; add unchanged lines around them"
        raise Bad(f"its diff does not apply to {called}: the lines it keeps and removes, from `{shown}` on, {what}")
    at = places[0]
    for line in part:
        if line[:1] == "+":
            yield at, at, [line[1:]]
        else:
            if line[:1] == "-":
                yield at, at + 1, []
            at += 1
