"""What a deck of flashcards is, and what goes wrong with one."""

from __future__ import annotations

import math
from dataclasses import dataclass

LEVELS = ("mid", "senior", "principal")
KINDS = ("qa", "cloze", "number", "choice", "order", "bug", "diagram")
TOLERANCE = 0.02  # of a number, unless its card says otherwise


class DeckError(Exception):
    """A deck, or the progress in it, cannot be used. The message is one sentence; `problems` holds all there are."""

    def __init__(self, *problems: str) -> None:
        super().__init__(problems[0])
        self.problems = problems


@dataclass(frozen=True)
class Number:
    """The number that is asked for: its value in `unit`, and how far off an answer may be, relative to it."""

    value: float
    unit: str
    tolerance: float = TOLERANCE
    formula: str = ""  # how the value is worked out: arithmetic that a test computes

    def accepts(self, typed: float) -> bool:
        return abs(typed - self.value) <= self.tolerance * abs(self.value)


@dataclass(frozen=True)
class Option:
    """One answer of a multiple choice, and, if it is wrong, why."""

    text: str
    right: bool
    why: str = ""


@dataclass(frozen=True)
class Card:
    """One flashcard; `question` and `answer` are the Markdown to show, with a cloze's parts hidden and filled in."""

    id: str
    deck: str
    level: str
    topic: str
    kind: str
    question: str
    answer: str
    number: Number | None = None
    asks: str | None = None  # the id of the interview question it belongs to
    line: int = 0
    options: tuple[Option, ...] = ()  # of kind choice, in the file's order
    steps: tuple[str, ...] = ()  # of kind order, in the right order
    bug_line: int | None = None  # of kind bug: the line of the question's code that is at fault, from 1
    picture: str = ""  # of kind diagram: its file, relative to the deck's folder


@dataclass(frozen=True)
class Deck:
    """One file of cards, in its order."""

    id: str
    title: str
    cards: tuple[Card, ...]
    file: str = ""


def as_number(text: str) -> float | None:
    """The finite number that `text` writes, or None."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
