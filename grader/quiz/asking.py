"""What each kind of card asks for, and whether what was typed is right."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass

from markdown_it import MarkdownIt

from grader.quiz import units
from grader.quiz.deck import Card, Number
from grader.quiz.schedule import AGAIN, GOOD

_CODE = MarkdownIt("commonmark")


class UnreadableError(Exception):
    """What was typed is no answer of this kind; the message says how to write one."""


@dataclass(frozen=True)
class Judged:
    """Whether an answer is right, one sentence about it, and the rating that this suggests."""

    right: bool
    said: str
    picked: tuple[int, ...] = ()  # of kind choice: the options, by the places at which they were shown

    @property
    def rating(self) -> int:
        return GOOD if self.right else AGAIN


def is_typed(card: Card) -> bool:
    """Whether the card asks for something that can be checked."""
    return card.kind in ("number", "choice", "order", "bug")


def prompt(card: Card) -> str:
    """How to answer, for a prompt."""
    if card.kind == "number" and card.number is not None:
        return "Your answer" if card.number.unit in units.PURE else f"Your answer in {card.number.unit}"
    return {
        "choice": "The numbers of all right options, e.g. 1 3",
        "order": "All numbers in the right order, e.g. 3 1 2",
        "bug": "The number of the faulty line",
    }.get(card.kind, "")


def shuffled(card: Card, seed: str) -> tuple[int, ...]:
    """The order in which a card's options or steps are shown, by the seed; steps are never shown in the right one."""
    items = list(range(len(card.options or card.steps)))
    drawn = random.Random(f"{seed}/{card.id}")
    while True:
        drawn.shuffle(items)
        if not card.steps or len(items) < 2 or items != sorted(items):
            return tuple(items)


def shown(card: Card, order: tuple[int, ...]) -> list[str]:
    """The options or steps as they are shown, from 1 on."""
    texts = [option.text for option in card.options] or list(card.steps)
    return [texts[index] for index in order]


def judge(card: Card, typed: str, order: tuple[int, ...]) -> Judged:
    """Hold what was typed against the card, whose options or steps were shown in `order`.

    Raises UnreadableError if it is no answer of the card's kind.
    """
    if card.kind == "number" and card.number is not None:
        return _judge_number(card.number, typed)
    if card.kind == "choice":
        return _judge_choice(card, numbers(typed, len(order)), order)
    if card.kind == "order":
        return _judge_order(numbers(typed, len(order)), order)
    return _judge_line(card, typed)


def judge_nothing(card: Card, order: tuple[int, ...]) -> str:
    """What is said to somebody who does not know."""
    if card.kind == "number" and card.number is not None:
        return f"It is {units.told(card.number.value, card.number.unit)}."
    if card.kind == "choice":
        return f"The right answer is {_list(_right(card, order))}."
    if card.kind == "order":
        return f"The right order is {_in_order(order)}."
    return f"It is line {card.bug_line}."


def _judge_number(number: Number, typed: str) -> Judged:
    try:
        value = units.answer(typed, number)
    except ValueError as error:
        raise UnreadableError(str(error)) from None
    it_is = f"it is {units.told(number.value, number.unit)}."
    if number.accepts(value):
        return Judged(True, f"Right: {it_is}")
    said, own = typed.strip(), units.told(float(f"{value:.4g}"), number.unit)
    which = "" if units.is_plain(said) or said == own else f", which is {own}"
    return Judged(False, f"Not {said}{which}: {it_is}")


def numbers(typed: str, count: int) -> list[int]:
    """The numbers that were typed, from 1 to `count`, each once; "312" is "3 1 2" where there are no more than nine."""
    words = re.split(r"[\s,;>-]+", typed.strip())
    if len(words) == 1 and count <= 9:
        words = list(words[0])
    numbers = [int(word) if word.isdecimal() else 0 for word in words]
    if not all(1 <= number <= count for number in numbers) or len(set(numbers)) < len(numbers):
        raise UnreadableError(f"Type numbers from 1 to {count}, each at most once.")
    return numbers


def _right(card: Card, order: tuple[int, ...]) -> list[int]:
    return [place for place, index in enumerate(order, start=1) if card.options[index].right]


def _judge_choice(card: Card, typed: list[int], order: tuple[int, ...]) -> Judged:
    right = _right(card, order)
    if set(typed) == set(right):
        return Judged(True, f"Right: {_list(right)}.", tuple(typed))
    wrong = sorted(set(typed) - set(right))
    missed = sorted(set(right) - set(typed))
    parts = [f"{_list(wrong)} {'are' if len(wrong) > 1 else 'is'} wrong"] if wrong else []
    parts += [f"{_list(missed)} {'are' if len(missed) > 1 else 'is'} missing"] if missed else []
    return Judged(False, f"Not right: {'; '.join(parts)}.", tuple(typed))


def _judge_order(typed: list[int], order: tuple[int, ...]) -> Judged:
    if len(typed) < len(order):
        raise UnreadableError(f"Type all {len(order)} numbers, in the right order.")
    right = [order[place - 1] for place in typed] == sorted(order)
    return Judged(right, "Right." if right else f"Not right: the right order is {_in_order(order)}.")


def _in_order(order: tuple[int, ...]) -> str:
    return " ".join(str(order.index(step) + 1) for step in sorted(order))


def _judge_line(card: Card, typed: str) -> Judged:
    first, last = _code(card)
    word = typed.strip().casefold().removeprefix("line").strip()
    if not word.isdecimal() or not 1 <= int(word) <= last - first:
        raise UnreadableError(f"Type the number of a line, from 1 to {last - first}.")
    right = int(word) == card.bug_line
    return Judged(right, f"Right: line {word}." if right else f"Not line {word}: it is line {card.bug_line}.")


def _list(places: list[int]) -> str:
    return " and ".join(filter(None, (", ".join(map(str, places[:-1])), str(places[-1]))))


def question(card: Card) -> str:
    """The Markdown to ask: a bug's code with its lines numbered, a diagram with what is drawn."""
    if card.kind == "bug":
        lines, (first, last) = card.question.split("\n"), _code(card)
        width = len(str(last - first))
        numbered = [f"{at:>{width}}  {line}" for at, line in enumerate(lines[first:last], start=1)]
        return "\n".join([*lines[:first], *numbered, *lines[last:]])
    if card.kind == "diagram" and card.alt:
        return f"{card.question}\n\n*Picture:* {card.alt}"
    return card.question


def answer(card: Card, order: tuple[int, ...], picked: tuple[int, ...]) -> str:
    """The Markdown that is shown after the answer: a choice's options as they were shown, with what was picked."""
    if not card.options:
        return card.answer
    items = []
    for place, index in enumerate(order, start=1):
        option, yours = card.options[index], place in picked
        sign = "Right" if option.right else "Wrong"
        sign += ", and you chose it" if yours else ", and you missed it" if picked and option.right else ""
        why = "".join(f"\n   {line}" if line else "\n" for line in option.why.split("\n")) if option.why else ""
        items.append(f"{place}. **{sign}:** {option.text}{'  ' if why else ''}{why}")
    return "\n".join([*items, "", card.explanation])


def _code(card: Card) -> tuple[int, int]:
    """From which line of a bug's question its code goes, and to which."""
    found = [token.map for token in _CODE.parse(card.question) if token.type == "fence" and token.map]
    return found[0][0] + 1, found[0][1] - 1
