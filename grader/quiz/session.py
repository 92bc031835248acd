"""One sitting with the flashcards, line by line: works in a terminal, through pipes, and when it is cut short."""

from __future__ import annotations

import math
import sys
from collections import Counter, deque
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from rich.console import Console
from rich.markdown import Markdown

from grader.quiz import deck as decks
from grader.quiz.deck import Card, Number
from grader.quiz.schedule import Memory, Rating, is_due, plan
from grader.quiz.store import Store, StoreError, data_folder

RATE = "1 again · 2 hard · 3 good · 4 easy · q stop"
CHOICES = {str(int(rating)): rating for rating in Rating} | {rating.name.lower(): rating for rating in Rating}
SPANS = {
    "within the hour": timedelta(hours=1),
    "within a day": timedelta(days=1),
    "within a week": timedelta(weeks=1),
    "within a month": timedelta(days=30),
    "later": timedelta.max,
}


class _Stop(Exception):
    """The learner wants to stop, or nobody is there to answer."""


def run(
    deck: str | None = None,
    new: int = 10,
    cards_dir: Path = Path("course/cards"),
    *,
    data: Path | None = None,
    console: Console | None = None,
    ask: Callable[[str], str] | None = None,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> int:
    """Review the due cards of a deck (None: of all decks), then at most `new` unseen ones; gives the exit status.

    Every answer is stored as soon as it is given. `ask` shows a prompt and returns a line (it may raise EOFError), and
    `data` is the folder of the progress. Status 0 however the session ended, 2 if the progress cannot be used. Raises
    DeckError: no such deck, a broken one, no cards.
    """
    cards = [card for each in decks.load(cards_dir, deck) for card in each.cards]
    console = console or Console(highlight=False)
    try:
        with Store(data or data_folder()) as store:
            _sitting(cards, new, store, console, ask or _from_stdin, now)
    except StoreError as error:
        print(f"rankup: {error}", file=sys.stderr)
        return 2
    return 0


def _sitting(
    cards: Sequence[Card],
    new: int,
    store: Store,
    console: Console,
    ask: Callable[[str], str],
    now: Callable[[], datetime],
) -> None:
    memories = store.memories()
    queue = deque((card, memories.get(card.id)) for card in plan(cards, memories, now(), new))
    seen = sum(card.id in memories for card, _ in queue)
    console.print(f"{_count(seen, 'card')} due, {len(queue) - seen} new. Enter shows the answer, q stops.")
    answers: Counter[Rating] = Counter()
    try:
        while queue:
            card, before = queue.popleft()
            memory = store.memory(card.id)
            if memory and memory != before and not is_due(memory, now()):
                continue  # a session beside this one has asked it meanwhile
            rating = _show(card, len(queue), console, ask)
            memory = store.record(card.id, rating, now())
            answers[rating] += 1
            if rating is Rating.AGAIN:
                queue.append((card, memory))
                console.print("Comes back in this session.")
            else:
                console.print(f"Comes back in {_span(memory.due - memory.last_review)}.")
    except (_Stop, KeyboardInterrupt):
        console.print()
    _summary(cards, store.memories(), answers, console, now())


def _show(card: Card, left: int, console: Console, ask: Callable[[str], str]) -> Rating:
    """Ask one card."""
    console.print()
    console.rule(f"{card.level} · {card.topic} · {left} more", align="left")
    console.print(Markdown(card.front))
    default = None
    if card.number:
        default = _check(card.number, console, ask)
    else:
        _line(ask, "Enter: ")
    console.print()
    console.print(Markdown(card.back))
    console.print(f"{card.id}, {card.file.name}:{card.line}", style="dim", markup=False)
    hint = f" (Enter: {int(default)})" if default else ""
    while True:
        line = _line(ask, f"{RATE}{hint}: ").lower()
        if line in CHOICES:
            return CHOICES[line]
        if not line and default:
            return default
        console.print("Please answer 1, 2, 3, 4 or q.")


def _check(number: Number, console: Console, ask: Callable[[str], str]) -> Rating:
    """Ask for a number and judge it; gives the rating that suggests itself."""
    unit = f" in {number.unit}" if number.unit else ""
    while True:
        line = _line(ask, f"Your number{unit}: ")
        if not line:
            console.print(f"It is {number}.", markup=False)
            return Rating.AGAIN
        given = _read_number(line, number.unit)
        if given is not None:
            break
        console.print(f"Please give a number{unit}, like 1.5; Enter alone shows the answer.", markup=False)
    right = number.accepts(given)
    console.print(f"Right, {number}." if right else f"No, it is {number}.", markup=False)
    return Rating.GOOD if right else Rating.AGAIN


def _read_number(line: str, unit: str) -> float | None:
    """`1.5` or `1.5 GiB`, if GiB is the unit that was asked for."""
    try:
        value = float(line.removesuffix(unit))
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _line(ask: Callable[[str], str], prompt: str) -> str:
    try:
        line = ask(prompt).strip()
    except EOFError:
        raise _Stop from None
    if line.lower() in ("q", "quit"):
        raise _Stop
    return line


def _from_stdin(prompt: str) -> str:
    """`input`, also where standard input is closed, a lost terminal, or not text."""
    if sys.stdin is None:
        raise EOFError
    if hasattr(sys.stdin, "reconfigure"):
        sys.stdin.reconfigure(errors="replace")
    try:
        line = input(prompt)
    except OSError as error:
        raise EOFError from error
    if not sys.stdin.isatty():
        print()  # nobody pressed Enter on the screen
    return line


def _summary(
    cards: Sequence[Card], memories: dict[str, Memory], answers: Counter[Rating], console: Console, now: datetime
) -> None:
    given = ", ".join(f"{answers[rating]} {rating.name.lower()}" for rating in Rating)
    console.print(f"\n{_count(answers.total(), 'answer')} kept" + (f": {given}." if answers else "."))
    due: Counter[str] = Counter()
    for card in cards:
        memory = memories.get(card.id)
        if memory is None:
            due["not seen yet"] += 1
        elif is_due(memory, now):
            due["due now"] += 1
        else:
            due[next(name for name, span in SPANS.items() if memory.due - now <= span)] += 1
    order = ["due now", *SPANS, "not seen yet"]
    console.print("Due: " + ", ".join(f"{name} {due[name]}" for name in order if due[name]) + ".")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _span(span: timedelta) -> str:
    """A length of time in its largest whole unit."""
    minutes = max(1, round(span.total_seconds() / 60))
    for noun, size in (("day", 24 * 60), ("hour", 60)):
        if minutes >= size:
            return _count(round(minutes / size), noun)
    return _count(minutes, "minute")
