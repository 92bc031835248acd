"""The strict parser of a deck's file, which is Markdown:

    ---
    deck: "06"
    title: Collectives and all-reduce
    ---

    ## ring-bytes
    level: senior
    topic: ring-all-reduce
    kind: qa

    How many bytes does each rank send?

    ---

    2(N-1)/N x S

Any card may name the interview question it belongs to (`question: q-ring`). What else a kind needs:

- `cloze` hides the {{parts in braces}} of its question and needs no answer of its own.
- `number` names `answer`, `unit`, perhaps `tolerance` (relative), and the `formula` that gives the answer: arithmetic.
- `choice` ends its question with a list of `- [ ] wrong` and `- [x] right` options, at least 3; why an option is wrong
  stands indented below it.
- `order` begins its answer with the steps in the right order, numbered from 1, at least 3.
- `bug` has one fenced block of code in its question, and names the `line` of it that is at fault, from 1.
- `diagram` names a `picture`, an SVG relative to the deck's folder, and `alt`: what is drawn, without the answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from grader.quiz import kinds
from grader.quiz.deck import KINDS, LEVELS, Card, Deck, DeckError
from grader.quiz.lines import BrokenError, Lines, broken, is_rule, text_of, unfenced

_REQUIRED = ("level", "topic", "kind")
_ID = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_FIELD = re.compile(r"([a-z]+):[ \t]+(\S.*)")


def parse(text: str, file: str) -> Deck:
    """Read a deck; `file` is what errors call it. Raises DeckError."""
    lines: Lines = list(enumerate(text.replace("\r\n", "\n").split("\n"), start=1))
    problems: list[str] = []
    cards: dict[str, Card] = {}
    try:
        about, body = _front_matter(lines)
        blocks = list(_blocks(body))
    except BrokenError as error:
        raise DeckError(f"{file}:{error.line}: {error.what}") from None
    for block in blocks:
        try:
            card = _card(block, about["deck"])
            if card.id in cards:
                broken(card.line, f"card {card.id!r} is also at line {cards[card.id].line}; an id is for one card")
            cards[card.id] = card
        except BrokenError as error:
            problems.append(f"{file}:{error.line}: {error.what}")
    if problems:
        raise DeckError(*problems)
    return Deck(about["deck"], about["title"], tuple(cards.values()), file)


def _front_matter(lines: Lines) -> tuple[dict[str, str], Lines]:
    if is_rule(lines[0][1]):
        for at, (_, text) in enumerate(lines[1:], start=1):
            if is_rule(text):
                about = _fields(lines[1:at], 1, ("deck", "title"), ())
                if not _ID.fullmatch(about["deck"]):
                    broken(1, f"deck {about['deck']!r} is no id: lowercase letters, digits and single hyphens")
                return about, lines[at + 1 :]
    raise BrokenError(1, "a deck begins with its `deck:` and `title:` between two lines `---`")


def _fields(lines: Lines, line: int, required: tuple[str, ...], optional: tuple[str, ...]) -> dict[str, str]:
    """The `key: value` lines of whatever begins at `line`; a value may stand in double quotes."""
    fields: dict[str, str] = {}
    for number, text in lines:
        found = _FIELD.fullmatch(text.rstrip())
        if found is None:
            broken(number, f"expected `key: value`, not {text.strip()!r}")
        key, value = found.groups()
        if key not in required + optional:
            broken(number, f"unknown key {key!r}; known here: {', '.join(required + optional)}")
        if key in fields:
            broken(number, f"{key!r} is said twice")
        quoted = len(value) > 2 and value[0] == value[-1] == '"'
        fields[key] = value[1:-1] if quoted else value
    if missing := [key for key in required if key not in fields]:
        broken(line, f"{' and '.join(map(repr, missing))} is missing")
    return fields


def _blocks(lines: Lines) -> Iterator[Lines]:
    """The lines of each card, its heading first."""
    starts = [index for index, (_, text) in unfenced(lines) if text == "##" or text.startswith("## ")]
    for number, text in lines[: starts[0] if starts else None]:
        if text.strip():
            broken(number, "expected a card, `## ID`")
    for start, end in pairwise([*starts, len(lines)]):
        yield lines[start:end]


def _card(block: Lines, deck: str) -> Card:
    line, heading = block[0]
    name = heading[2:].strip()
    if not _ID.fullmatch(name):
        broken(line, f"{name!r} is no id for a card: lowercase letters, digits and single hyphens")
    end = next((at for at, (_, text) in enumerate(block) if not text.strip()), len(block))
    kind = next(
        (found[2] for _, text in block[1:end] if (found := _FIELD.fullmatch(text.rstrip())) and found[1] == "kind"), ""
    )
    fields = _fields(block[1:end], line, _REQUIRED + kinds.NEEDS.get(kind, ()), kinds.MAY.get(kind, kinds.ANY))
    for key, known in (("level", LEVELS), ("kind", KINDS)):
        if fields[key] not in known:
            broken(line, f"card {name!r} has {key} {fields[key]!r}; there are {', '.join(known)}")
    question, answer = _sides(block[end:], name, line, needs_answer=kind != "cloze")
    made = kinds.make(kind, fields, question, answer, name, line)
    return Card(name, deck, fields["level"], fields["topic"], kind, asks=fields.get("question"), line=line, **made)


def _sides(body: Lines, name: str, line: int, *, needs_answer: bool) -> tuple[Lines, Lines]:
    rules = [index for index, (_, text) in unfenced(body) if is_rule(text)]
    if len(rules) > 1:
        broken(body[rules[1]][0], f"card {name!r} has a second line `---`; write `***` for a rule")
    if needs_answer and not rules:
        broken(line, f"card {name!r} has no line `---` between question and answer")
    middle = rules[0] if rules else len(body)
    question, answer = body[:middle], body[middle + 1 :]
    if not text_of(question).strip():
        broken(line, f"card {name!r} has an empty question")
    if rules and not text_of(answer).strip():
        broken(line, f"card {name!r} has an empty answer")
    return question, answer
