"""`rankup quiz`, `rankup interview` and `rankup cards ...`: thin; every command is one call into `grader.quiz`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from grader.submission import BadRequest

if TYPE_CHECKING:
    from grader.quiz.interview.session import Course

app = typer.Typer()
cards_app = typer.Typer(help="Look at and check the flashcards.", no_args_is_help=True)
app.add_typer(cards_app, name="cards")


@contextmanager
def _told() -> Iterator[None]:
    """Turns what is wrong with the cards, or the progress in them, into a bad request."""
    from grader.quiz.deck import DeckError

    try:
        yield
    except DeckError as error:
        raise BadRequest(str(error)) from None


@app.command()
def quiz(
    decks: Annotated[
        list[str] | None, typer.Argument(metavar="DECK", help="Decks, e.g. 06; all of them if left out.")
    ] = None,
    topic: Annotated[list[str] | None, typer.Option(help="Only cards about this topic (repeatable).")] = None,
    level: Annotated[list[str] | None, typer.Option(help="Only mid, senior or principal (repeatable).")] = None,
    kind: Annotated[
        list[str] | None, typer.Option(help="Only qa, cloze, number, choice, order, bug or diagram (repeatable).")
    ] = None,
    new: Annotated[
        int | None, typer.Option(min=0, help="New cards today, over all sessions; left out: what you set, or 10.")
    ] = None,
    plain: Annotated[bool, typer.Option("--plain", help="Plain lines instead of the full screen.")] = False,
    stats: Annotated[bool, typer.Option("--stats", help="Print how the learning goes, and end.")] = False,
    export: Annotated[Path | None, typer.Option(metavar="FILE", help="Write all progress as JSON, and end.")] = None,
    import_: Annotated[
        Path | None,
        typer.Option("--import", metavar="FILE", help="Unite the progress of an export with yours, and end."),
    ] = None,
    unsuspend: Annotated[
        str | None, typer.Option(metavar="CARD", help="Let a suspended card be asked again, and end.")
    ] = None,
) -> int:
    """Review the flashcards that are due, and learn new ones.

    On a terminal a full screen, where ? lists the keys; through pipes, with TERM=dumb or --plain plain lines. Progress
    is kept in $RANKUP_DATA, or your data folder, by the ids of the cards. Of two machines' progress, --import keeps
    for each card what was reviewed last, and every answer once.
    """
    from grader import catalog
    from grader.quiz import front
    from grader.quiz.plan import Wanted

    if sum((stats, export is not None, import_ is not None, unsuspend is not None)) > 1:
        raise BadRequest("--stats, --export, --import and --unsuspend each stand alone")
    wanted = Wanted(tuple(decks or ()), tuple(topic or ()), tuple(level or ()), tuple(kind or ()))
    with _told():
        if export is not None:
            return front.export(export)
        if import_ is not None:
            return front.import_(import_)
        if unsuspend is not None:
            return front.unsuspend(unsuspend)
        if stats:
            return front.print_statistics(wanted, catalog.cards())
        return front.quiz(wanted, new, catalog.cards(), in_lines=plain)


@app.command()
def interview(
    level: Annotated[str, typer.Option(help="mid, senior or principal.")],
    minutes: Annotated[
        float | None, typer.Option(help="How long; 30, or as long as the round. From 45 on with a design round.")
    ] = None,
    topic: Annotated[
        list[str] | None, typer.Option(help="Only this topic, chapter (06) or area (training); repeatable.")
    ] = None,
    design: Annotated[str | None, typer.Option("--round", help="A design round, e.g. one-trillion.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Draw the same questions again.")] = None,
    out: Annotated[Path, typer.Option(help="The folder of the report.")] = Path("work", "interviews"),
    plain: Annotated[bool, typer.Option("--plain", help="Plain lines, also on a terminal.")] = False,
) -> int:
    """A mock interview: questions by level and by what you are weak at, a clock, rubrics, and a report."""
    from grader.quiz.interview import session

    with _told():
        wanted = session.Request(level, minutes, tuple(topic or ()), design, seed, out, plain)
        return session.run(_course(), wanted)


def _course() -> Course:
    """What the interview needs to know of the course, and of what was reached in its exercises."""
    from grader import catalog, progress
    from grader.quiz.interview.session import Course
    from grader.quiz.interview.summary import Exercise, Reading
    from grader.quiz.interview.task import Question

    titles = {chapter.id: chapter.title for chapter in catalog.chapters()}
    topics, sections = catalog.topics(), catalog.sections()
    readings, exercises, reached = {}, {}, {}
    best = progress.best()
    for topic in topics:
        notebook, section = sections.get(topic.id, (None, ""))
        link = f"{notebook}#{section.replace(' ', '-')}" if notebook else ""
        readings[topic.id] = Reading(topic.chapter, titles[topic.chapter], section, link)
        if topic.exercise:
            there = next((catalog.root() / "exercises").glob(f"*/{topic.exercise}.ipynb"), "")
            exercises[topic.id] = Exercise(topic.exercise, str(there))
            if (done := best.get(topic.exercise)) and done.max_points:
                reached[topic.id] = done.points / done.max_points
    return Course(
        catalog.interview(),
        catalog.cards(),
        [Question(each.id, each.level, each.topic, each.text) for each in catalog.asked()],
        {topic.id: topic.chapter for topic in topics},
        readings,
        exercises,
        reached,
    )


@cards_app.command("check")
def check_cards() -> int:
    """Look for duplicate ids, empty answers, unknown topics, broken pictures, missing levels and missing cards."""
    from grader import catalog
    from grader.quiz import lint
    from grader.quiz.interview import lint as interviews
    from grader.quiz.interview.task import Question

    with _told():
        levels = {topic.id: topic.levels for topic in catalog.topics()}
        problems = lint.problems(catalog.cards(), levels, catalog.questions())
        asked = [Question(each.id, each.level, each.topic, each.text) for each in catalog.asked()]
        problems += interviews.problems(catalog.interview(), asked, levels)
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

    if anki.suffix != ".apkg":
        raise BadRequest(f"{anki}: Anki imports files whose names end in .apkg")
    with _told():
        decks = folder.chosen(catalog.cards(), deck)
        count = apkg.export(decks, catalog.cards(), anki)
    print(f"{anki}: {count} cards of {len(decks)} deck{'s' * (len(decks) != 1)}")
    return 0


@cards_app.command("list")
def list_cards(as_json: Annotated[bool, typer.Option("--json", help="Print the cards as JSON.")] = False) -> int:
    """Every card: id, deck, topic, level, kind, question."""
    from grader import catalog
    from grader.quiz import folder

    with _told():
        decks = folder.load_folder(catalog.cards())
    keys = ("id", "deck", "topic", "level", "kind", "question")
    rows = [{key: getattr(card, key) for key in keys} for deck in decks for card in deck.cards]
    if as_json:
        print(json.dumps(rows))
    else:
        for row in rows:
            print(f"{row['deck']}  {row['level']:<9} {row['topic']:<22} {row['id']}")
    return 0
