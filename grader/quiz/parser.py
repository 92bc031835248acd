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

A card of kind `cloze` hides the {{parts in braces}} of its question and needs no answer of its own; one of kind
`number` names `answer`, `unit` and perhaps `tolerance` (relative) and checks what the learner types.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import NoReturn

from grader.quiz.deck import KINDS, LEVELS, TOLERANCE, Card, Deck, DeckError, Number, as_number

_REQUIRED = ("level", "topic", "kind")
_KEYS = {"qa": (), "cloze": (), "number": ("answer", "unit")}  # what else a kind needs
_OPTIONAL = {"qa": ("question",), "cloze": ("question",), "number": ("question", "tolerance")}
_ANY_KIND = ("question", "answer", "unit", "tolerance")
_ID = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_FIELD = re.compile(r"([a-z]+):[ \t]+(\S.*)")
_FENCE = re.compile(r" {0,3}(`{3,}(?=[^`]*$)|~{3,})(.*)")
_HIDDEN = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)

Line = tuple[int, str]  # its number in the file, from 1, and its text
Lines = list[Line]


class _BrokenError(Exception):
    def __init__(self, line: int, what: str) -> None:
        super().__init__(line, what)
        self.line, self.what = line, what


def _broken(line: int, what: str) -> NoReturn:
    raise _BrokenError(line, what)


def parse(text: str, file: str) -> Deck:
    """Read a deck; `file` is what errors call it. Raises DeckError."""
    lines: Lines = list(enumerate(text.replace("\r\n", "\n").split("\n"), start=1))
    problems: list[str] = []
    cards: dict[str, Card] = {}
    try:
        about, body = _front_matter(lines)
        blocks = list(_blocks(body))
    except _BrokenError as error:
        raise DeckError(f"{file}:{error.line}: {error.what}") from None
    for block in blocks:
        try:
            card = _card(block, about["deck"])
            if card.id in cards:
                _broken(card.line, f"card {card.id!r} is also at line {cards[card.id].line}; an id is for one card")
            cards[card.id] = card
        except _BrokenError as error:
            problems.append(f"{file}:{error.line}: {error.what}")
    if problems:
        raise DeckError(*problems)
    return Deck(about["deck"], about["title"], tuple(cards.values()), file)


def _front_matter(lines: Lines) -> tuple[dict[str, str], Lines]:
    if _is_rule(lines[0][1]):
        for at, (_, text) in enumerate(lines[1:], start=1):
            if _is_rule(text):
                about = _fields(lines[1:at], 1, ("deck", "title"), ())
                if not _ID.fullmatch(about["deck"]):
                    _broken(1, f"deck {about['deck']!r} is no id: lowercase letters, digits and single hyphens")
                return about, lines[at + 1 :]
    _broken(1, "a deck begins with its `deck:` and `title:` between two lines `---`")


def _is_rule(text: str) -> bool:
    return text.rstrip() == "---"


def _fields(lines: Lines, line: int, required: tuple[str, ...], optional: tuple[str, ...]) -> dict[str, str]:
    """The `key: value` lines of whatever begins at `line`; a value may stand in double quotes."""
    fields: dict[str, str] = {}
    for number, text in lines:
        found = _FIELD.fullmatch(text.rstrip())
        if found is None:
            _broken(number, f"expected `key: value`, not {text.strip()!r}")
        key, value = found.groups()
        if key not in required + optional:
            _broken(number, f"unknown key {key!r}; known here: {', '.join(required + optional)}")
        if key in fields:
            _broken(number, f"{key!r} is said twice")
        quoted = len(value) > 2 and value[0] == value[-1] == '"'
        fields[key] = value[1:-1] if quoted else value
    if missing := [key for key in required if key not in fields]:
        _broken(line, f"{' and '.join(map(repr, missing))} is missing")
    return fields


def _unfenced(lines: Lines) -> Iterator[tuple[int, Line]]:
    """(index, line) of the lines outside of code fences (CommonMark 0.31, section 4.5)."""
    fence, opened = "", 0
    for index, (number, text) in enumerate(lines):
        found = _FENCE.fullmatch(text)
        if fence:
            if found and found[1].startswith(fence) and not found[2].strip():
                fence = ""
        elif found:
            fence, opened = found[1], number
        else:
            yield index, (number, text)
    if fence:
        _broken(opened, "this code fence is never closed")


def _blocks(lines: Lines) -> Iterator[Lines]:
    """The lines of each card, its heading first."""
    starts = [index for index, (_, text) in _unfenced(lines) if text == "##" or text.startswith("## ")]
    for number, text in lines[: starts[0] if starts else None]:
        if text.strip():
            _broken(number, "expected a card, `## ID`")
    for start, end in pairwise([*starts, len(lines)]):
        yield lines[start:end]


def _card(block: Lines, deck: str) -> Card:
    line, heading = block[0]
    name = heading[2:].strip()
    if not _ID.fullmatch(name):
        _broken(line, f"{name!r} is no id for a card: lowercase letters, digits and single hyphens")
    end = next((at for at, (_, text) in enumerate(block) if not text.strip()), len(block))
    kind = next(
        (found[2] for _, text in block[1:end] if (found := _FIELD.fullmatch(text.rstrip())) and found[1] == "kind"), ""
    )
    fields = _fields(block[1:end], line, _REQUIRED + _KEYS.get(kind, ()), _OPTIONAL.get(kind, _ANY_KIND))
    for key, known in (("level", LEVELS), ("kind", KINDS)):
        if fields[key] not in known:
            _broken(line, f"card {name!r} has {key} {fields[key]!r}; there are {', '.join(known)}")
    question, answer = _sides(block[end:], name, line, needs_answer=kind != "cloze")
    if kind == "cloze":
        question, answer = _cloze(question, answer, name, line)
    number = _number(fields, name, line) if kind == "number" else None
    return Card(
        name, deck, fields["level"], fields["topic"], kind, question, answer, number, fields.get("question"), line
    )


def _sides(body: Lines, name: str, line: int, *, needs_answer: bool) -> tuple[str, str]:
    rules = [index for index, (_, text) in _unfenced(body) if _is_rule(text)]
    if len(rules) > 1:
        _broken(body[rules[1]][0], f"card {name!r} has a second line `---`; write `***` for a rule")
    if needs_answer and not rules:
        _broken(line, f"card {name!r} has no line `---` between question and answer")
    middle = rules[0] if rules else len(body)
    question, answer = map(_text, (body[:middle], body[middle + 1 :]))
    if not question.strip():
        _broken(line, f"card {name!r} has an empty question")
    if rules and not answer.strip():
        _broken(line, f"card {name!r} has an empty answer")
    return question, answer


def _text(side: Lines) -> str:
    return "\n".join(text if text.strip() else "" for _, text in side).strip("\n")


def _cloze(text: str, explanation: str, name: str, line: int) -> tuple[str, str]:
    hidden = _HIDDEN.findall(text)
    if not hidden or not all(part.strip() for part in hidden):
        _broken(line, f"card {name!r} is a cloze, but hides nothing: write {{{{like this}}}}")
    filled = _HIDDEN.sub(lambda found: str(found[1]).strip(), text)
    return _HIDDEN.sub("[...]", text), f"{filled}\n\n{explanation}".strip()


def _number(fields: dict[str, str], name: str, line: int) -> Number:
    numbers = {}
    for key, text in (("answer", fields["answer"]), ("tolerance", fields.get("tolerance", str(TOLERANCE)))):
        value = as_number(text)
        if value is None or (key == "tolerance" and not 0 <= value < 1):
            _broken(
                line, f"card {name!r} has {key} {text!r}, which is no number" + " from 0 to 1" * (key == "tolerance")
            )
        numbers[key] = value
    return Number(numbers["answer"], fields["unit"], numbers["tolerance"])
