"""Decks of flashcards: Markdown files that a person edits by hand, read strictly.

    ---
    deck: "06"
    title: Collectives and all-reduce
    ---
    Everything up to the first card is an introduction.

    ## ring-bytes
    level: senior, topic: ring-all-reduce, question: q-ring

    How many bytes does each rank send in a ring all-reduce?

    **Answer:** 2(N−1)/N · S.

The heading is the card's id. Progress belongs to the id, so every other word may change. Optional tags are `kind` (qa,
cloze or number; qa if left out) and `question` (an id of questions.yaml). A cloze card hides what stands in {{double
braces}}, and may do without an answer. A number card says `answer: 1.5`, and if it likes `unit: GiB` and `tolerance:`
as a number or in per cent.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

LEVELS = ("mid", "senior", "principal")
KINDS = ("qa", "cloze", "number")
ANSWER = "**Answer:**"
TAGS = ("level", "topic", "kind", "question", "answer", "tolerance", "unit")

_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_FILE = re.compile(r"(\d\d)-.+\.md")
_FENCE = re.compile(r"\s*(`{3,}|~{3,})(.*)")
_HIDDEN = re.compile(r"\{\{(.+?)\}\}", re.DOTALL)


class DeckError(Exception):
    """A deck that is not there or cannot be read: one sentence, with file and line where there are any."""


@dataclass(frozen=True)
class Number:
    """What a number card wants to hear: `value` in `unit`, give or take `tolerance` in the same unit."""

    value: float
    tolerance: float = 0.0
    unit: str = ""

    def accepts(self, given: float) -> bool:
        return abs(given - self.value) <= self.tolerance + 1e-9 * abs(self.value)

    def __str__(self) -> str:
        return f"{self.value:.12g} {self.unit}".strip()


@dataclass(frozen=True)
class Card:
    """One flashcard. `question` is the interview question it belongs to, `text` what is asked; both texts are Markdown."""

    id: str
    deck: str
    topic: str
    level: str
    kind: str
    question: str | None
    text: str
    answer: str
    number: Number | None
    file: Path
    line: int

    @property
    def front(self) -> str:
        """What is shown first."""
        return _HIDDEN.sub("[…]", self.text) if self.kind == "cloze" else self.text

    @property
    def back(self) -> str:
        """What is shown when the answer is asked for."""
        filled = _HIDDEN.sub(r"**\1**", self.text) if self.kind == "cloze" else ""
        return "\n\n".join(part for part in (filled, self.answer) if part)


@dataclass(frozen=True)
class Deck:
    """One file of cards, in the order of the file; `id` is the chapter's ("06")."""

    id: str
    title: str
    cards: tuple[Card, ...]


def files(cards_dir: Path) -> dict[str, Path]:
    """Deck id -> file, for every NN-title.md of the folder. Raises DeckError where two files claim one id."""
    found: dict[str, Path] = {}
    for path in sorted(cards_dir.glob("*.md")):
        if match := _FILE.fullmatch(path.name):
            if match[1] in found:
                raise DeckError(f"{path} and {found[match[1]].name} are both deck {match[1]}")
            found[match[1]] = path
    return found


def load(cards_dir: Path, deck: str | None = None) -> list[Deck]:
    """All decks of a folder, or the one called `deck` ("06" or "6"). Raises DeckError: no such deck, broken, no cards."""
    found = files(cards_dir)
    if not found:
        raise DeckError(f"{cards_dir} has no decks: no file there is called like 06-collectives.md")
    if deck is not None:
        if deck.zfill(2) not in found:
            raise DeckError(f"no deck is called {deck!r}; there are: {', '.join(found)}")
        found = {deck.zfill(2): found[deck.zfill(2)]}
    decks = [read(path) for path in found.values()]
    for sentence in duplicates([card for each in decks for card in each.cards]):
        raise DeckError(sentence)
    return decks


def read(path: Path) -> Deck:
    """The deck in a file. Raises DeckError."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise DeckError(f"{path} is not UTF-8 text") from None
    except OSError as error:
        raise DeckError(f"{path} cannot be read: {error.strerror}") from None
    deck = parse(text, path)
    if not path.name.startswith(f"{deck.id}-"):
        raise DeckError(f"{path}:2: the file's name does not begin with its deck, {deck.id!r}")
    return deck


def duplicates(cards: Sequence[Card]) -> list[str]:
    """A sentence for every card whose id an earlier card has."""
    first: dict[str, Card] = {}
    return [
        f"{card.file}:{card.line}: {card.id} is also the id of the card at {before.file}:{before.line}"
        for card in cards
        if (before := first.setdefault(card.id, card)) is not card
    ]


def parse(text: str, file: Path) -> Deck:
    """The deck that `text` is; `file` is named in errors. Raises DeckError."""
    lines = text.split("\n")
    deck, title, body = _front_matter(lines, file)
    plain = _outside_code(lines, body, file)
    heads = [number for number in plain if lines[number].startswith("## ")]
    if not heads:
        raise DeckError(f"{file}:{body + 1}: the deck has no cards, which begin with '## card-id'")
    for number in plain:
        if number > heads[0] and lines[number].startswith("#") and number not in heads:
            raise DeckError(f"{file}:{number + 1}: a card has no headings; a line of '## card-id' begins the next one")
    blocks = zip(heads, [*heads[1:], len(lines)], strict=True)
    return Deck(deck, title, tuple(_card(lines, range(*block), plain, deck, file) for block in blocks))


def _front_matter(lines: Sequence[str], file: Path) -> tuple[str, str, int]:
    """Deck id, title, and the index of the line after the front matter."""
    ends = [number for number, line in enumerate(lines) if line.rstrip() == "---"]
    if ends[:1] != [0] or len(ends) < 2:
        raise DeckError(f"{file}:1: a deck begins with a line ---, then deck and title, then a line ---")
    try:
        fields = yaml.safe_load("\n".join(lines[1 : ends[1]]))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        raise DeckError(f"{file}:{mark.line + 2 if mark else 2}: the front matter is not YAML") from None
    if not isinstance(fields, dict) or set(fields) != {"deck", "title"}:
        raise DeckError(f"{file}:2: the front matter has two fields, deck and title")
    deck, title = fields["deck"], fields["title"]
    if not isinstance(deck, str) or not re.fullmatch(r"[0-9]{2}", deck):
        raise DeckError(f'{file}:2: deck is two digits in quotes, like "06"')
    if not isinstance(title, str) or not title.strip():
        raise DeckError(f"{file}:2: title is a text")
    return deck, title, ends[1] + 1


def _outside_code(lines: Sequence[str], start: int, file: Path) -> dict[int, None]:
    """Indices of the lines that are not in a fenced code block, in order."""

    def walk() -> Iterator[int]:
        fence, opened = "", 0
        for number in range(start, len(lines)):
            match = _FENCE.fullmatch(lines[number])
            if not fence and match and "`" not in match[2]:
                fence, opened = match[1], number
            elif not fence:
                yield number
            elif match and match[1].startswith(fence) and not match[2].strip():
                fence = ""
        if fence:
            raise DeckError(f"{file}:{opened + 1}: this code block is not closed")

    return dict.fromkeys(walk())


def _card(lines: Sequence[str], block: range, plain: dict[int, None], deck: str, file: Path) -> Card:
    head = block[0]
    name = lines[head][3:].strip()
    if not _NAME.fullmatch(name):
        raise DeckError(f"{file}:{head + 1}: {name!r} is no card id; it has small letters, digits and single hyphens")
    where = next((number for number in block[1:] if lines[number].strip()), head)
    tags = _tags(lines[where] if where != head else "", name, f"{file}:{where + 1}")
    split = next((n for n in block if n > where and n in plain and lines[n].startswith(ANSWER)), block.stop)
    text = "\n".join(lines[where + 1 : split]).strip()
    answer = "\n".join(lines[split : block.stop]).removeprefix(ANSWER).strip()
    kind = tags.get("kind", "qa")
    if not text:
        raise DeckError(f"{file}:{head + 1}: card {name} asks nothing")
    if not answer and kind != "cloze":
        raise DeckError(f"{file}:{head + 1}: card {name} has no answer, which begins with {ANSWER}")
    if kind == "cloze" and not _HIDDEN.search(text):
        raise DeckError(f"{file}:{head + 1}: cloze card {name} hides nothing in {{{{double braces}}}}")
    number = _number(tags, f"{file}:{where + 1}: card {name}")
    question = tags.get("question")
    return Card(name, deck, tags["topic"], tags["level"], kind, question, text, answer, number, file, head + 1)


def _tags(line: str, name: str, where: str) -> dict[str, str]:
    """`level: senior, topic: collectives` as a dictionary, its values checked."""
    tags: dict[str, str] = {}
    for part in line.split(","):
        key, _, value = (piece.strip() for piece in part.partition(":"))
        if key not in TAGS or not value:
            raise DeckError(f"{where}: below '## {name}' comes a line like 'level: mid, topic: collectives'")
        if key in tags:
            raise DeckError(f"{where}: card {name} has two tags {key}")
        tags[key] = value
    for key, choices in {"level": LEVELS, "kind": KINDS}.items():
        if tags.get(key, choices[0]) not in choices:
            raise DeckError(f"{where}: card {name}: {key} is one of {', '.join(choices)}, not {tags[key]!r}")
    for key in ("level", "topic"):
        if key not in tags:
            raise DeckError(f"{where}: card {name} has no {key}")
    return tags


def _number(tags: dict[str, str], where: str) -> Number | None:
    if tags.get("kind") != "number":
        if extra := {"answer", "tolerance", "unit"} & tags.keys():
            raise DeckError(f"{where}: only a card of kind number has the tag {min(extra)}")
        return None
    try:
        value = float(tags["answer"])
        allowed = tags.get("tolerance", "0")
        tolerance = float(allowed.rstrip("% ")) * (abs(value) / 100 if allowed.endswith("%") else 1)
    except (KeyError, ValueError):
        raise DeckError(f"{where}: a number card says 'answer: 1.5', and perhaps 'tolerance: 1 %'") from None
    if not math.isfinite(value) or not 0 <= tolerance < math.inf:
        raise DeckError(f"{where}: the answer is a finite number, and the tolerance is not below zero")
    return Number(value, tolerance, tags.get("unit", ""))
