"""`rankup quiz`: how a session is shown, on the full screen where there is a terminal, else in plain lines."""

from __future__ import annotations

import os
import shutil
import sys
from contextlib import suppress
from pathlib import Path

from rich.console import Console

from grader.quiz import exchange, plain, statistics
from grader.quiz.deck import DeckError
from grader.quiz.folder import load_all
from grader.quiz.plan import Wanted, choose
from grader.quiz.session import Quiz
from grader.quiz.sitting import Clock, Desk, clock
from grader.quiz.steps import Steps
from grader.quiz.store import opened


def quiz(
    wanted: Wanted,
    new: int | None,
    cards_dir: Path,
    *,
    in_lines: bool = False,
    now: Clock = clock,
    read: plain.Read = plain.read_line,
    console: Console | None = None,
) -> int:
    """Ask the wanted cards: those that are due, then new ones, at most `new` a day (None: what the learner set).

    Returns the exit status. Raises DeckError if there is no such deck, or the cards or the progress cannot be used.
    """
    console = console or Console(highlight=False)
    decks = load_all(cards_dir)
    choose(wanted, decks)
    full = not in_lines and has_screen()
    with opened() as store:
        talk = Quiz(Desk(store, decks, cards_dir, wanted, new, now), stay=full)
        with suppress(KeyboardInterrupt):  # between two steps
            hold(talk.steps(), full, console, read)
        for number, line in enumerate(talk.summary()):
            console.print(line, style="" if number else "bold", markup=False)
    return 0


def hold(steps: Steps, full: bool, console: Console, read: plain.Read) -> None:
    """Show the steps of a talk to its end, on the full screen or in lines. Raises DeckError."""
    if full:
        from grader.quiz.screen.app import StepApp  # which takes a while to import

        StepApp(steps).hold()
    else:
        plain.hold(steps, console, read)


def has_screen() -> bool:
    """Whether both ends are a terminal that can be drawn on."""
    ends = (sys.stdin, sys.stdout)
    return all(end is not None and end.isatty() for end in ends) and os.environ.get("TERM", "dumb") != "dumb"


def print_statistics(wanted: Wanted, cards_dir: Path) -> int:
    """Print how the learning of the wanted cards goes. Raises DeckError."""
    cards = choose(wanted, load_all(cards_dir))
    with opened() as store:
        counted = statistics.count(cards, store, clock())
    text = "\n".join(statistics.lines(counted, min(shutil.get_terminal_size().columns, 100)))
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    print(text.encode(encoding, "replace").decode(encoding))
    return 0


def export(file: Path) -> int:
    """Write all progress to a file, as JSON; an earlier export there is replaced. Raises DeckError, also if the file is
    anything else."""
    replaced = file.exists()
    if replaced:
        try:
            exchange.read(file)
        except DeckError:
            raise DeckError(f"{file}: there is a file that is no earlier export; choose another name") from None
    with opened() as store:
        progress = store.export()
    exchange.write(progress, file)
    cards, reviews = len(progress["memories"]), len(progress["reviews"])
    print(f"{'replaced' if replaced else 'wrote'} {file}: {cards} cards, {reviews} answers")
    return 0


def import_(file: Path) -> int:
    """Unite the progress of a file with what is there. Raises DeckError; nothing is changed then."""
    progress = exchange.read(file)
    with opened() as store:
        before = len(store.reviews())
        store.merge(progress)
        after, cards = len(store.reviews()), len(store.memories())
    print(f"{after - before} answers were new; you now have {after} answers to {cards} cards")
    return 0


def unsuspend(card: str) -> int:
    """Let a suspended card be asked again. Raises DeckError if it is not suspended."""
    with opened() as store:
        suspended = store.suspended()
        if card not in suspended:
            there = ", ".join(sorted(suspended)) or "none"
            raise DeckError(f"card {card!r} is not suspended; the suspended cards are: {there}")
        store.unsuspend(card)
    print(f"{card} will be asked again")
    return 0
