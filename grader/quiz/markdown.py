"""Markdown files with keys, read strictly: front matter, headings, the keys below them, rules, code and lists.

markdown-it says where headings, rules, lists and code are; what is wrong is said with FILE:LINE.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, NoReturn, TypeVar

from markdown_it import MarkdownIt
from markdown_it.token import Token
from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError

from grader.quiz.deck import DeckError

ID = r"[a-z0-9]+(-[a-z0-9]+)*"
BULLET = re.compile(r"- (.*)")
_FIELD = re.compile(r"([a-z]+):[ \t]+(\S.*)")
_BLOCKS = MarkdownIt("commonmark").disable(["inline", "text_join", "lheading", "html_block", "reference"])

T = TypeVar("T")
Model = TypeVar("Model", bound="Keys")


class Keys(BaseModel):
    """The `key: value` lines at the top of a file or below a heading; what is not declared is refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def fitting(pattern: str, what: str) -> AfterValidator:
    """Of a key whose value is to look like `what`."""

    def check(value: str) -> str:
        if not re.fullmatch(pattern, value):
            raise ValueError(f"it should be {what}")
        return value

    return AfterValidator(check)


Id = Annotated[str, fitting(ID, "an id: lowercase letters, digits and single hyphens")]
Written = Annotated[str, fitting(r"[-+]?\d[\d_]*(\.\d+)?([eE][-+]?\d{1,2})?", "a number, as 1.5 or 2e9")]


class BrokenError(Exception):
    """What is wrong, and at which line of the file."""

    def __init__(self, line: int, what: str) -> None:
        super().__init__(line, what)
        self.line, self.what = line, what


def broken(line: int, what: str) -> NoReturn:
    raise BrokenError(line, what)


@dataclass(frozen=True)
class Item:
    """One item of a list: its line, what its mark matched, and the lines indented below it."""

    line: int
    match: re.Match[str]
    below: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The whole item as one line."""
        return " ".join(filter(None, [(self.match[self.match.re.groups] or "").strip(), *map(str.strip, self.below)]))


@dataclass(frozen=True)
class Part:
    """The lines `start` to `end` of a file, counted from 0: what is below the heading `name`, which is at `line`."""

    lines: list[str]
    tokens: list[Token]
    start: int
    end: int
    line: int = 1  # from 1
    name: str = ""

    @property
    def text(self) -> str:
        """The lines as one text, without the empty ones around it."""
        return "\n".join(line if line.strip() else "" for line in self.lines[self.start : self.end]).strip("\n")

    def until(self, end: int) -> Part:
        return replace(self, end=end)

    def since(self, start: int) -> Part:
        return replace(self, start=start)

    def found(self, kind: str) -> list[tuple[Token, int, int]]:
        """The blocks of a kind that are in no other block, with their first line and the one after their last."""
        return [
            (token, token.map[0], token.map[1])
            for token in self.tokens
            if token.type == kind and token.level == 0 and token.map and self.start <= token.map[0] < self.end
        ]

    def rules(self) -> list[int]:
        return [at for _, at, _ in self.found("hr") if self.lines[at].rstrip() == "---"]

    def sections(self, depth: int, first: str) -> list[Part]:
        """The parts below headings of this depth. BrokenError, `first`, if text stands before them."""
        before, found = self.split(depth)
        for number, text in before.numbered():
            if text.strip():
                broken(number, first)
        return found

    def split(self, depth: int) -> tuple[Part, list[Part]]:
        """What stands before the first heading of this depth, and the parts below each."""
        starts = [at for token, at, _ in self.found("heading_open") if token.tag == f"h{depth}"]
        ends = [*starts, self.end][1:]
        names = [self.lines[at].strip()[depth:].strip() for at in starts]
        found = [
            replace(self, start=a + 1, end=b, line=a + 1, name=name)
            for a, b, name in zip(starts, ends, names, strict=True)
        ]
        return self.until(starts[0]) if starts else self, found

    def numbered(self) -> Iterator[tuple[int, str]]:
        return enumerate(self.lines[self.start : self.end], start=self.start + 1)

    def keys(self, choose: Callable[[dict[str, str]], type[Model]], what: str = "") -> tuple[Model, Part]:
        """The keys up to the first empty line, as the model that `choose` picks by them; and the rest.

        `what` has them, for messages.
        """
        values: dict[str, str] = {}
        lines: dict[str, int] = {}
        end = self.start
        for number, text in self.numbered():
            if not text.strip():
                break
            end = number
            match = _FIELD.fullmatch(text.rstrip())
            if match is None:
                broken(number, f"expected `key: value`, not {text.strip()!r}")
            key, value = match.groups()
            if key in values:
                broken(number, f"{key!r} is given twice")
            quoted = len(value) > 2 and value[0] == value[-1] == '"'
            values[key], lines[key] = value[1:-1] if quoted else value, number
        model = choose(values)
        try:
            return model.model_validate(values), self.since(end)
        except ValidationError as error:
            faults = error.errors(include_url=False, include_context=False)
        if unknown := [str(each["loc"][0]) for each in faults if each["type"] == "extra_forbidden"]:
            broken(lines[unknown[0]], f"unknown key {unknown[0]!r}; known here: {', '.join(model.model_fields)}")
        if missing := [str(each["loc"][0]) for each in faults if each["type"] == "missing"]:
            broken(self.line, f"{' and '.join(map(repr, missing))} is missing")
        key, said = str(faults[0]["loc"][0]), faults[0]["msg"].removeprefix("Value error, ")
        has = f"{what} has {key} {values[key]!r}" if what else f"{key} is {values[key]!r}"
        broken(self.line, f"{has}; {said.replace('Input should', 'it should')}")

    def items(self, mark: re.Pattern[str]) -> list[Item]:
        """The items of a list, each of which begins with `mark` and goes on indented by two."""
        found: list[Item] = []
        for number, text in self.numbered():
            if match := mark.fullmatch(text):
                found.append(Item(number, match))
            elif found and (text.startswith("  ") or not text.strip()):
                found[-1].below.append(text[2:])
            elif text.strip():
                broken(number, f"expected an item of the list, or more of one, indented below it; not {text.strip()!r}")
        return found

    def bullets(self, least: int) -> list[Item]:
        """The items of a part that is one list with `- `."""
        found = self.items(BULLET)
        if len(found) < least:
            broken(self.line, f"{self.name!r} has {len(found)} of at least {least} items")
        for item in found:
            if not item.text:
                broken(item.line, f"an item of {self.name!r} is empty")
        return found


def opened(text: str, model: type[Model]) -> tuple[Model, Part]:
    """The keys between the two lines `---` that a file begins with, and the rest of it."""
    lines = text.replace("\r\n", "\n").replace("\r", " ").replace("\x00", " ").split("\n")
    end = next((at for at, line in enumerate(lines[1:], start=1) if line.rstrip() == "---"), 0)
    if lines[0].rstrip() != "---" or not end:
        wanted = [f"`{name}:`" for name, about in model.model_fields.items() if about.is_required()]
        broken(1, f"the file must begin with {', '.join(wanted)} between two lines `---`")
    tokens = _BLOCKS.parse("\n".join([""] * (end + 1) + lines[end + 1 :]))
    for token in tokens:
        if token.type == "fence" and token.map:
            last = lines[token.map[1] - 1].strip(" \t>")
            closed = last.startswith(token.markup) and not last.strip(token.markup[0])
            if token.map[1] - token.map[0] < 2 or not closed:
                broken(token.map[0] + 1, "this code fence is never closed")
    keys, rest = Part(lines, tokens, 1, end).keys(lambda _: model)
    for number, line in rest.numbered():
        broken(number, f"expected `key: value`, not {line.strip()!r}")
    return keys, Part(lines, tokens, end + 1, len(lines))


@contextmanager
def told(file: str) -> Iterator[None]:
    """Turns what is broken at a line into FILE:LINE and one sentence."""
    try:
        yield
    except BrokenError as error:
        raise DeckError(f"{file}:{error.line}: {error.what}") from None


def every(make: Callable[[Part], T], parts: Iterable[Part], file: str) -> list[T]:
    """What `make` makes of each part. Raises DeckError with the problems of all of them."""
    found: list[T] = []
    problems: list[str] = []
    for part in parts:
        try:
            with told(file):
                found.append(make(part))
        except DeckError as error:
            problems += error.problems
    if problems:
        raise DeckError(*problems)
    return found


def read(path: Path) -> str:
    """The text of a file. Raises DeckError, with FILE:LINE where it is no text."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DeckError(f"{path}: cannot be read: {error.strerror}") from None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DeckError(f"{path}:{line}: not UTF-8, byte 0x{data[error.start]:02x}") from None


def collect(folder: Path, parse: Callable[[Path], T]) -> tuple[list[T], list[str]]:
    """What is read of each .md file of a folder, and what is wrong with those that cannot be."""
    found: list[T] = []
    problems: list[str] = []
    for path in sorted(folder.glob("*.md")):
        try:
            found.append(parse(path))
        except DeckError as error:
            problems += error.problems
    return found, problems
