"""`rankup quiz` and `rankup cards ...`: thin; every command is one call into `grader.quiz`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from grader.submission import BadRequest

app = typer.Typer()
cards_app = typer.Typer(help="Look at and check the flashcards.", no_args_is_help=True)
app.add_typer(cards_app, name="cards")


@app.command()
def quiz(
    deck: Annotated[str | None, typer.Argument(help="A deck, e.g. 06; all of them if left out.")] = None,
    new: Annotated[int, typer.Option(min=0, help="At most so many cards you have not seen.")] = 10,
) -> int:
    """Review the flashcards that are due, and learn new ones."""
    from grader import catalog
    from grader.quiz import session
    from grader.quiz.deck import DeckError

    try:
        return session.run(deck, new, catalog.cards())
    except DeckError as error:
        raise BadRequest(str(error)) from None


@cards_app.command("check")
def check_cards() -> int:
    """Look for duplicate ids, empty answers, unknown topics, broken pictures, missing levels and missing cards."""
    from grader import catalog
    from grader.quiz import lint
    from grader.quiz.deck import DeckError

    try:
        levels = {topic.id: topic.levels for topic in catalog.topics()}
        problems = lint.problems(catalog.cards(), levels, catalog.questions())
    except DeckError as error:
        raise BadRequest(str(error)) from None
    print("\n".join(problems) or "all cards are fit to be learnt from")
    return 1 if problems else 0


@cards_app.command("export")
def export_cards(
    anki: Annotated[Path, typer.Option(help="The .apkg file to write, for Anki's File > Import.")],
    deck: Annotated[str | None, typer.Option(help="A deck, e.g. 06; all of them if left out.")] = None,
) -> int:
    """The cards as an Anki package; importing a newer one updates the cards and keeps their reviews."""
    from grader import catalog
    from grader.quiz import apkg, folder
    from grader.quiz.deck import DeckError

    if anki.suffix != ".apkg":
        raise BadRequest(f"{anki}: Anki imports files whose names end in .apkg")
    try:
        decks = folder.chosen(catalog.cards(), deck)
        count = apkg.export(decks, catalog.cards(), anki)
    except DeckError as error:
        raise BadRequest(str(error)) from None
    print(f"{anki}: {count} cards of {len(decks)} deck{'s' * (len(decks) != 1)}")
    return 0


@cards_app.command("list")
def list_cards(as_json: Annotated[bool, typer.Option("--json", help="Print the cards as JSON.")] = False) -> int:
    """Every card: id, deck, topic, level, kind, question."""
    from grader import catalog
    from grader.quiz import folder
    from grader.quiz.deck import DeckError

    try:
        decks = folder.load_folder(catalog.cards())
    except DeckError as error:
        raise BadRequest(str(error)) from None
    keys = ("id", "deck", "topic", "level", "kind", "question")
    rows = [{key: getattr(card, key) for key in keys} for deck in decks for card in deck.cards]
    if as_json:
        print(json.dumps(rows))
    else:
        for row in rows:
            print(f"{row['deck']}  {row['level']:<9} {row['topic']:<22} {row['id']}")
    return 0
