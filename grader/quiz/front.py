"""How a session is shown: on the full screen where there is a terminal, else in plain lines."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from grader.quiz import exchange, statistics
from grader.quiz.deck import DeckError
from grader.quiz.folder import load_folder
from grader.quiz.plan import Wanted, choose
from grader.quiz.sitting import clock
from grader.quiz.store import opened


def quiz(wanted: Wanted, new: int | None, cards_dir: Path, *, plain: bool = False) -> int:
    """Hold a session; returns the exit status. Raises DeckError."""
    if plain or not has_screen():
        from grader.quiz import session

        return session.run(wanted, new, cards_dir)
    from grader.quiz.screen.app import run  # which takes a while to import

    return run(wanted, new, cards_dir)


def has_screen() -> bool:
    """Whether both ends are a terminal that can be drawn on."""
    ends = (sys.stdin, sys.stdout)
    return all(end is not None and end.isatty() for end in ends) and os.environ.get("TERM", "dumb") != "dumb"


def print_statistics(wanted: Wanted, cards_dir: Path) -> int:
    """Print how the learning of the wanted cards goes. Raises DeckError."""
    cards = choose(wanted, load_folder(cards_dir))
    with opened() as store:
        counted = statistics.count(cards, store, clock())
    text = "\n".join(statistics.lines(counted, min(shutil.get_terminal_size().columns, 100)))
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    print(text.encode(encoding, "replace").decode(encoding))
    return 0


def export(file: Path) -> int:
    """Write all progress to a file, as JSON. Raises DeckError."""
    with opened() as store:
        progress = store.export()
    exchange.write(progress, file)
    cards, reviews = len(progress["memories"]), len(progress["reviews"])
    print(f"wrote {file}: {cards} cards, {reviews} answers")
    return 0


def import_(file: Path) -> int:
    """Unite the progress of a file with what is there. Raises DeckError; nothing is changed then."""
    progress = exchange.read(file)
    with opened() as store:
        before = len(store.reviews())
        store.merge(progress)
        after, cards = len(store.reviews()), len(store.memories())
    print(f"{after - before} answers were new; there are {after} now, to {cards} cards")
    return 0


def unsuspend(card: str) -> int:
    """Let a suspended card be asked again. Raises DeckError if it is not suspended."""
    with opened() as store:
        suspended = store.suspended()
        if card not in suspended:
            there = ", ".join(sorted(suspended)) or "none"
            raise DeckError(f"card {card!r} is not suspended; suspended are: {there}")
        store.unsuspend(card)
    print(f"{card} is asked again")
    return 0
