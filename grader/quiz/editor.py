"""A card opened in the learner's editor, at its line."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from grader.quiz.deck import Card, Deck, DeckError
from grader.quiz.folder import load_folder

_GOTO = ("code", "code-insiders", "codium", "cursor")  # which return at once, unless they are told to wait
_COLON = ("hx", "helix", "subl", "zed")


def command(file: Path, line: int) -> list[str]:
    """What opens `file` at `line`: by $VISUAL or $EDITOR, else the first of some that is there. Raises DeckError."""
    wanted = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    try:
        words = shlex.split(wanted) if wanted else []
    except ValueError as error:
        raise DeckError(f"the editor setting {wanted!r} cannot be read: {error}") from None
    if not words:
        words = [found for name in ("nano", "vim", "vi", "emacs") if (found := shutil.which(name))][:1]
    if not words:
        raise DeckError("no editor was found; set one, as in EDITOR=nano")
    name = Path(words[0]).stem
    if name in _GOTO:
        return [*words, *(() if "--wait" in words else ("--wait",)), "--goto", f"{file}:{line}"]
    if name in _COLON:
        return [*words, f"{file}:{line}"]
    return [*words, f"+{line}", str(file)]


def edit(card: Card, decks: Sequence[Deck]) -> None:
    """Open the card and wait until the editor is closed. Raises DeckError if there is no editor, or it fails."""
    file = next((Path(deck.file) for deck in decks if deck.id == card.deck and deck.file), None)
    if file is None:
        raise DeckError(f"card {card.id!r} is in no file")
    words = command(file, card.line or 1)
    try:
        status = subprocess.run(words, check=False).returncode
    except OSError as error:
        raise DeckError(f"the editor {words[0]!r} cannot be run: {error.strerror}") from None
    if status:
        raise DeckError(f"the editor {words[0]!r} ended with status {status}")


def read_again(folder: Path) -> list[Deck]:
    """The decks after an edit. Raises DeckError, with FILE:LINE and what is wrong there, if one is broken now."""
    try:
        return load_folder(folder)
    except DeckError as error:
        more = f" (and {len(error.problems) - 1} more)" if len(error.problems) > 1 else ""
        raise DeckError(f"{error}{more}; the session continues with the cards as they were") from None


def picture(card: Card, folder: Path) -> Path:
    """The file of a diagram. Raises DeckError if it is not there."""
    file = folder / card.picture
    if not card.picture or not file.is_file():
        raise DeckError(f"{file}: no such picture" if card.picture else f"card {card.id!r} has no picture")
    return file


def open_picture(card: Card, folder: Path) -> str:
    """Show a diagram in the browser; says so. Raises DeckError if the picture or a browser is missing."""
    import webbrowser

    url = picture(card, folder).resolve().as_uri()
    if not webbrowser.open(url):
        raise DeckError(f"no browser could be started; the picture is {url}")
    return f"The picture is open in your browser: {url}"
