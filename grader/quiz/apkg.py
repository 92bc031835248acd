"""Decks as an Anki package (.apkg), made by genanki.

Notes are told apart by the ids of their cards, so that importing a newer package updates what is there, and keeps what
Anki knows of each card. The ids of note types and decks must never change.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
import time
import zlib
from collections.abc import Sequence
from html import escape
from pathlib import Path

import genanki

from grader.quiz import html
from grader.quiz.deck import Card, Deck, DeckError
from grader.quiz.folder import picture

_BACK = '{{FrontSide}}\n<hr id="answer">\n{{Answer}}\n<p class="about">{{About}}</p>'
_PLAIN = genanki.Model(
    1_894_206_318,
    "rankup",
    fields=[{"name": "Id"}, {"name": "Question"}, {"name": "Answer"}, {"name": "About"}],
    templates=[{"name": "Card", "qfmt": "{{Question}}", "afmt": _BACK}],
    css=html.CSS,
)
_CLOZE = genanki.Model(
    1_894_206_319,
    "rankup cloze",
    fields=[{"name": "Id"}, {"name": "Text"}, {"name": "Answer"}, {"name": "About"}],
    templates=[
        {
            "name": "Cloze",
            "qfmt": "{{cloze:Text}}",
            "afmt": '{{cloze:Text}}\n<hr id="answer">\n{{Answer}}\n<p class="about">{{About}}</p>',
        }
    ],
    css=html.CSS,
    model_type=genanki.Model.CLOZE,
)


def export(decks: Sequence[Deck], folder: Path, out: Path, *, now: float | None = None) -> int:
    """Write the decks, whose pictures lie beside them or under `folder`, as one package; say how many cards there are.

    The file is written whole or not at all. `now` is when, in seconds since 1970. Raises DeckError if a picture or the
    file cannot be used.
    """
    cards = [card for deck in decks for card in deck.cards]
    made = [_deck(deck) for deck in decks]
    try:
        with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}-") as room:
            package = genanki.Package(made, media_files=_pictures(cards, folder, Path(room)))
            whole = Path(room) / "whole"
            package.write_to_file(str(whole), timestamp=time.time() if now is None else now)
            os.replace(whole, out)
    except (OSError, sqlite3.Error) as error:  # genanki makes a database on the way
        raise DeckError(f"{out}: cannot be written: {getattr(error, 'strerror', None) or error}") from None
    return len(cards)


def _deck(deck: Deck) -> genanki.Deck:
    name = f"{deck.id} {deck.title}".replace("::", ":")
    made = genanki.Deck(2**31 + zlib.crc32(f"rankup::{deck.id}".encode()), f"rankup::{name}")
    for place, card in enumerate(deck.cards):
        made.add_note(_note(card, deck, place))
    return made


def _note(card: Card, deck: Deck, place: int) -> genanki.Note:
    about = escape(f"{deck.id} {deck.title} · {card.topic} · {card.level}")
    tags = [f"level::{card.level}", f"topic::{card.topic}", f"kind::{card.kind}", f"chapter::{deck.id}"]
    is_cloze = card.kind == "cloze"
    question = html.cloze(card) if is_cloze else html.front(card)
    return genanki.Note(
        _CLOZE if is_cloze else _PLAIN,
        [card.id, question, html.back(card), about],
        tags=[*tags, *([f"question::{card.asks}"] if card.asks else [])],
        guid=genanki.guid_for("rankup", card.id),
        due=place,
    )


def _pictures(cards: Sequence[Card], folder: Path, room: Path) -> list[str]:
    """Copies of the pictures that the cards show, under the names that the notes have for them."""
    copies: dict[str, Path] = {}
    for card in cards:
        if card.picture:
            copy, source = room / html.picture_name(card), picture(card, folder)
            if copies.setdefault(copy.name, source) != source:
                raise DeckError(f"{source}: another picture has the same name")
            try:
                shutil.copyfile(source, copy)
            except OSError as error:
                raise DeckError(f"{source}: cannot be copied to {room}: {error.strerror}") from None
    return [str(room / name) for name in copies]
