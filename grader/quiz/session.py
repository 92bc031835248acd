"""A session in the terminal: plain lines, so that it works the same on a terminal, through pipes and in tests."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from rich.console import Console
from rich.markdown import Markdown
from rich.rule import Rule
from rich.text import Text

from grader.quiz.deck import Card, DeckError, as_number
from grader.quiz.folder import load_folder
from grader.quiz.schedule import AGAIN, Memory
from grader.quiz.store import Store, opened

Clock = Callable[[], datetime]

_HORIZONS = (
    ("now", timedelta(0)),
    ("within the hour", timedelta(hours=1)),
    ("within a day", timedelta(days=1)),
    ("within a week", timedelta(weeks=1)),
    ("later", timedelta.max),
)


class _QuitError(Exception):
    """The learner wants to stop."""


def _clock() -> datetime:
    return datetime.now(UTC)


def _read(prompt: str) -> str:
    if sys.stdin is None:  # closed by whoever started us
        raise EOFError
    try:
        typed = input(prompt)
    except OSError:  # the terminal is gone
        raise EOFError from None
    if not sys.stdin.isatty():
        print()  # nobody pressed Enter on the screen
    return typed


def run(
    deck: str | None,
    new: int,
    cards_dir: Path,
    *,
    now: Clock = _clock,
    read: Callable[[str], str] = _read,
    console: Console | None = None,
) -> int:
    """Ask the cards of one deck, or of all: those that are due, then at most `new` that were never seen.

    `read` shows a prompt and returns a line, or raises EOFError; the session then ends as with `q`. Returns the exit
    status. Raises DeckError if there is no such deck, or the cards or the progress cannot be used.
    """
    cards = _chosen(deck, cards_dir)
    with opened() as store:
        session = _Session(store, now, read, console or Console(highlight=False))
        queue = plan(cards, store.memories(), new, now())
        session.ask_all(queue)
        session.summarise(cards, asked=bool(queue))
    return 0


def plan(cards: Sequence[Card], memories: Mapping[str, Memory], new: int, now: datetime) -> list[Card]:
    """The cards to ask: those due, the longest overdue first, then at most `new` unseen ones in the decks' order."""
    due = [card for card in cards if card.id in memories and memories[card.id].due <= now]
    unseen = [card for card in cards if card.id not in memories]
    return sorted(due, key=lambda card: memories[card.id].due) + unseen[:new]


def _chosen(deck: str | None, cards_dir: Path) -> list[Card]:
    decks = load_folder(cards_dir)
    if deck is not None and deck not in {each.id for each in decks}:
        there = ", ".join(each.id for each in decks) or "none yet"
        raise DeckError(f"no deck is called {deck!r}; there are: {there}")
    return [card for each in decks if deck in (None, each.id) for card in each.cards]


class _Session:
    def __init__(self, store: Store, now: Clock, read: Callable[[str], str], console: Console) -> None:
        self._store, self._now, self._read, self._console = store, now, read, console
        self._first: dict[str, int] = {}  # the first rating of each card in this session
        self._new: set[str] = set()

    def ask_all(self, cards: Sequence[Card]) -> None:
        """Ask until no card is left, the learner quits, or nobody answers any more."""
        queue = deque(cards)
        known = self._store.memories()
        shown = 0
        try:
            while queue:
                card = queue.popleft()
                if self._store.memory(card.id) != known.get(card.id):
                    continue  # another session asked it meanwhile
                shown += 1
                rating = self._ask(card, f"{shown} of {shown + len(queue)}")
                if card.id not in known:
                    self._new.add(card.id)
                known[card.id] = self._store.answer(card.id, rating, self._now())
                self._first.setdefault(card.id, rating)
                if rating == AGAIN:
                    queue.append(card)
        except (_QuitError, EOFError, KeyboardInterrupt):
            self._say("")

    def _ask(self, card: Card, progress: str) -> int:
        self._console.print(Rule(Text(f"{progress}  {card.deck} {card.topic} ({card.level})"), align="left"))
        self._console.print(Markdown(card.question))
        self._say("")
        if card.number is None:
            self._line("Enter shows the answer: ")
        else:
            self._check(card)
        self._console.print(Markdown(card.answer))
        self._say("")
        while True:
            typed = self._line("1 again  2 hard  3 good  4 easy  q quit: ")
            if typed in ("1", "2", "3", "4"):
                return int(typed)
            self._say("Type 1, 2, 3 or 4.")

    def _check(self, card: Card) -> None:
        """Read a number, in the card's unit, until there is one or the learner gives up; say whether it is right."""
        assert card.number is not None
        right = f"{card.number.value:g} {card.number.unit}"
        while typed := self._line(f"Your answer in {card.number.unit} (Enter if you do not know): "):
            value = as_number(typed.removesuffix(card.number.unit).strip())
            if value is not None:
                verdict = "Right" if card.number.accepts(value) else f"Not {value:g}"
                self._say(f"{verdict}: it is {right}.", "green" if card.number.accepts(value) else "red")
                return
            self._say("That is no number; write it like 1.5 or 2e9.")
        self._say(f"It is {right}.")

    def _line(self, prompt: str) -> str:
        try:
            typed = self._read(prompt).strip()
        except UnicodeDecodeError:
            return "?"
        if typed.lower() == "q":
            raise _QuitError
        return typed

    def summarise(self, cards: Sequence[Card], *, asked: bool) -> None:
        """Say what was answered, how much of it was retained, and what is due when."""
        if asked:
            old = [rating for card, rating in self._first.items() if card not in self._new]
            retained = f", {sum(rating != AGAIN for rating in old)} of them retained" if old else ""
            self._say(f"Answered {len(self._first)}: {len(self._new)} new, {len(old)} seen before{retained}.", "bold")
        else:
            self._say("Nothing is due.", "bold")
        now, known = self._now(), self._store.memories()
        waits = [known[card.id].due - now for card in cards if card.id in known]
        counts = dict.fromkeys((name for name, _ in _HORIZONS), 0)
        for wait in waits:
            counts[next(name for name, horizon in _HORIZONS if wait <= horizon)] += 1
        parts = [f"{count} {name}" for name, count in counts.items() if count]
        if waits:
            self._say(f"Due: {', '.join(parts)}; the next {_in_words(min(waits))}.")
        if unseen := len(cards) - len(waits):
            self._say(f"Not seen yet: {unseen}.")

    def _say(self, text: str, style: str = "") -> None:
        self._console.print(text, style=style, markup=False)


def _in_words(wait: timedelta) -> str:
    for name, unit in (("days", timedelta(days=1)), ("hours", timedelta(hours=1)), ("minutes", timedelta(minutes=1))):
        if wait >= 2 * unit:
            return f"in {wait // unit} {name}"
    return "now" if wait <= timedelta(0) else "in a minute"
