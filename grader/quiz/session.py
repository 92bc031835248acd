"""A session in plain lines, so that it works the same on a terminal, through pipes and in tests."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.markdown import Markdown
from rich.rule import Rule
from rich.text import Text

from grader.quiz import asking, editor, statistics, words
from grader.quiz.deck import Deck, DeckError
from grader.quiz.folder import load_folder
from grader.quiz.plan import Wanted, choose
from grader.quiz.schedule import AGAIN
from grader.quiz.sitting import Clock, Sitting, Turn, clock
from grader.quiz.store import Store, opened

HELP = """\
Enter shows the answer, or takes the rating that is suggested   1-4 rate: again, hard, good, easy
u undo the last answer   b bury until tomorrow   s suspend   e edit the card in $EDITOR   o open the picture
n N: from now on N new cards a day   t statistics   q quit   ? this list"""


class _QuitError(Exception):
    """The learner wants to stop."""


class _TurnError(Exception):
    """Another card is in turn now, or the same one anew."""


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
    wanted: Wanted,
    new: int | None,
    cards_dir: Path,
    *,
    now: Clock = clock,
    read: Callable[[str], str] = _read,
    console: Console | None = None,
) -> int:
    """Ask the wanted cards: those that are due, then new ones, at most `new` a day (None: what the learner set).

    `read` shows a prompt and returns a line, or raises EOFError; the session then ends as with `q`. Returns the exit
    status. Raises DeckError if there is no such deck, or the cards or the progress cannot be used.
    """
    decks = load_folder(cards_dir)
    cards = choose(wanted, decks)
    with opened() as store:
        everything = [card for deck in decks for card in deck.cards]
        sitting = Sitting(store, cards, new_a_day=new, now=now, everything=everything)
        _Lines(sitting, store, wanted, decks, cards_dir, read, console or Console(highlight=False)).hold()
    return 0


class _Lines:
    def __init__(
        self,
        sitting: Sitting,
        store: Store,
        wanted: Wanted,
        decks: list[Deck],
        cards_dir: Path,
        read: Callable[[str], str],
        console: Console,
    ) -> None:
        self._sitting, self._store, self._wanted = sitting, store, wanted
        self._decks, self._cards_dir = decks, cards_dir
        self._read, self._console = read, console
        self._commands: dict[str, Callable[[Turn], None]] = {
            "?": lambda _: self._say(HELP),
            "t": lambda _: self._statistics(),
            "u": lambda _: self._moves(self._sitting.undo()),
            "b": lambda _: self._aside(self._sitting.bury()),
            "s": lambda _: self._aside(self._sitting.suspend()),
            "e": lambda turn: self._edit(turn),
            "o": lambda turn: self._say(editor.open_picture(turn.card, self._cards_dir)),
        }

    def hold(self) -> None:
        """Ask until no card is left, the learner quits, or nobody answers any more."""
        asked = False
        try:
            turn = self._sitting.next()
            while turn is not None:
                asked = True
                try:
                    self._sitting.rate(self._ask(turn))
                    turn = self._sitting.next()
                except _TurnError:
                    turn = self._sitting.turn
        except (_QuitError, EOFError, KeyboardInterrupt):
            self._say("")
        sitting = self._sitting
        lines = words.summary(sitting.cards, self._store.memories(), sitting.answers(), sitting.now(), asked=asked)
        for number, line in enumerate(lines):
            self._say(line, "" if number else "bold")

    def _ask(self, turn: Turn) -> int:
        """Show both sides of the card; returns how it was rated."""
        card = turn.card
        new = ", new" if turn.new else ""
        about = f"{turn.place} of {turn.of}  {card.deck} {card.topic} ({card.level}{new})"
        self._console.print(Rule(Text(about), align="left"))
        self._console.print(Markdown(asking.question(card)))
        for place, text in enumerate(asking.shown(card, turn.order), start=1):
            self._console.print(Markdown(f"{place}. {text}"))
        self._say("")
        suggested = None
        if asking.is_typed(card):
            suggested = self._check(turn)
        else:
            self._line("Enter shows the answer: ", turn)
        self._console.print(Markdown(card.answer))
        self._say("")
        keys = f"{words.ratings(self._sitting.intervals())}  "
        keys += f"Enter: {suggested}  " if suggested else ""
        while True:
            typed = self._line(f"{keys}u b s e ?  q quit: ", turn)
            if typed in ("1", "2", "3", "4"):
                return int(typed)
            if not typed and suggested:
                return suggested
            self._say("Type 1, 2, 3 or 4.")

    def _check(self, turn: Turn) -> int:
        """Read an answer until there is one or the learner gives up; say whether it is right. Returns a rating."""
        card = turn.card
        while typed := self._line(f"{asking.prompt(card)} (Enter if you do not know): ", turn):
            try:
                judged = asking.judge(card, typed, turn.order)
            except asking.UnreadableError as error:
                self._say(str(error))
                continue
            self._say(judged.said, "green" if judged.right else "red")
            return judged.rating
        self._say(asking.judge_nothing(card, turn.order))
        return AGAIN

    def _line(self, prompt: str, turn: Turn) -> str:
        """What was typed that is no command."""
        while True:
            try:
                typed = self._read(prompt).strip()
            except UnicodeDecodeError:
                return "?!"
            word = typed.lower()
            if word == "q":
                raise _QuitError
            try:
                if word.startswith("n ") and word[2:].strip().isdecimal():
                    most = int(word[2:])
                    self._sitting.set_new_a_day(most)
                    self._say(f"From now on at most {most} new cards a day.")
                elif word in self._commands:
                    self._commands[word](turn)
                else:
                    return typed
            except DeckError as error:
                self._say(f"{error}.")

    def _moves(self, said: str) -> None:
        self._say(said)
        raise _TurnError

    def _aside(self, said: str) -> None:
        self._sitting.next()
        self._moves(said)

    def _edit(self, turn: Turn) -> None:
        editor.edit(turn.card, self._decks)
        self._decks = editor.read_again(self._cards_dir)
        cards = [card for deck in self._decks for card in deck.cards]
        self._sitting.replace(cards, [card for card in cards if self._wanted.accepts(card)])
        self._moves("The cards were read again.")

    def _statistics(self) -> None:
        sitting = self._sitting
        counted = statistics.count(sitting.cards, self._store, sitting.now())
        for line in statistics.lines(counted, min(self._console.width, 100)):
            self._say(line)

    def _say(self, text: str, style: str = "") -> None:
        self._console.print(text, style=style, markup=False)
