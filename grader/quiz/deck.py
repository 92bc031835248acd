"""What a deck of flashcards is, and what goes wrong with one."""

from __future__ import annotations

from dataclasses import dataclass, field

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
    formula: str = ""  # how the value is worked out: arithmetic that the linter computes
    written: str = field(default="", compare=False)  # the value as the file has it

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
    """One flashcard. `question` is the Markdown that is asked, `answer` all the Markdown that is shown after it.

    - cloze: the question has [...] for what is hidden; the answer has it filled in, then the explanation.
    - choice: the question is without its options, which are to be shown, in any order, from `options`; the answer says
      each option once more, the right ones first, with why the wrong ones are wrong, then the explanation.
    - order: the answer begins with the steps in the right order; to be shown before that, shuffled, from `steps`.
    - bug: the question holds the code; the answer begins with the line at fault.
    - diagram: the picture is to be shown, or `alt` where none can be; neither text repeats it.
    - number: the answer shows how `number` is worked out.

    What a chapter has the reader predict is a card of kind choice or number, too. It is new to nobody: the quiz asks it
    of those who predicted something else.
    """

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
    alt: str = ""  # of kind diagram: what is drawn there, without giving the answer away
    cloze: str = ""  # of kind cloze: the question with its {{parts}}
    explanation: str = ""  # of kinds cloze, choice and bug: what the card's author wrote as the answer
    file: str = field(default="", compare=False)  # that it was read from
    predict: bool = False  # asked in its chapter, before the cell that shows it


@dataclass(frozen=True)
class Deck:
    """One file of cards, in its order."""

    id: str
    title: str
    cards: tuple[Card, ...]
    file: str = ""
