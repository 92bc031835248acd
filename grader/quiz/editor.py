"""A card opened in the learner's editor, at its line: their own, or a copy that becomes their own."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from grader.quiz.deck import Card, Deck, DeckError
from grader.quiz.folder import load_all, own, picture
from grader.quiz.markdown import read
from grader.quiz.parser import parse
from grader.quiz.whole import write_whole

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


def edit(card: Card) -> None:
    """Open the card and wait until the editor is closed. Raises DeckError if there is no editor, or it fails.

    A card that is not the learner's own is copied into their folder, and the copy is opened; one that is left as it was
    is removed again.
    """
    if not card.file:
        raise DeckError(f"card {card.id!r} is in no file")
    mine = Path(card.file).is_relative_to(own())
    file = Path(card.file) if mine else own() / Path(card.file).name
    before = read(file) if file.exists() else ""
    copied = before if mine or f"\n## {card.id}\n" in before else _with_copy(card, before)
    if copied != before:
        with suppress(OSError):  # what is written next says it
            file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, copied)
    line = card.line if mine else copied.split("\n").index(f"## {card.id}") + 1
    try:
        _run(command(file, line or 1))
    finally:
        if copied != before and read(file) == copied:
            write_whole(file, before) if before else file.unlink()


def _with_copy(card: Card, before: str) -> str:
    """The text of a file of the learner's, or an empty one, with a card of the course at its end."""
    text = read(Path(card.file))
    lines, starts = text.split("\n"), [each.line for each in parse(text, card.file).cards]
    end = min((start for start in starts if start > card.line), default=len(lines) + 1)
    head = before or "\n".join(lines[: min(starts) - 1])
    return "\n".join([head.strip("\n"), "", "\n".join(lines[card.line - 1 : end - 1]).strip("\n"), ""])


def _run(words: Sequence[str]) -> None:
    try:
        status = subprocess.run(words, check=False).returncode
    except OSError as error:
        raise DeckError(f"the editor {words[0]!r} cannot be run: {error.strerror}") from None
    if status:
        raise DeckError(f"the editor {words[0]!r} ended with status {status}")


def read_again(folder: Path) -> list[Deck]:
    """The decks after an edit. Raises DeckError, with FILE:LINE and what is wrong there, if one is broken now."""
    try:
        return load_all(folder)
    except DeckError as error:
        more = f" (and {len(error.problems) - 1} more)" if len(error.problems) > 1 else ""
        raise DeckError(f"{error}{more}; the session continues with the cards as they were") from None


def open_picture(card: Card, folder: Path) -> str:
    """Show a diagram in the browser; says so. Raises DeckError if the picture or a browser is missing."""
    import webbrowser

    url = picture(card, folder).resolve().as_uri()
    if not webbrowser.open(url):
        raise DeckError(f"no browser could be started; the picture is {url}")
    return f"The picture is open in your browser: {url}"
