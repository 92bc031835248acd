"""`rankup quiz`, `rankup interview` and `rankup cards ...`: thin; every command is one call into `grader.quiz`."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from grader.submission import BadRequest

if TYPE_CHECKING:
    from grader.quiz.interview.session import Course
    from grader.quiz.plan import Wanted

app = typer.Typer()
cards_app = typer.Typer(help="List, check and export the flashcards.", no_args_is_help=True)
app.add_typer(cards_app, name="cards")


@contextmanager
def _told() -> Iterator[None]:
    """Turns what is wrong with the cards, or the progress in them, into a bad request."""
    from grader.quiz.deck import DeckError

    try:
        yield
    except DeckError as error:
        raise BadRequest(str(error)) from None


Decks = Annotated[list[str] | None, typer.Argument(metavar="DECK", help="Decks, e.g. 06 (default: all decks).")]
Topics = Annotated[list[str] | None, typer.Option("--topic", help="Only cards about this topic (repeatable).")]
Levels = Annotated[list[str] | None, typer.Option("--level", help="Only mid, senior or principal (repeatable).")]
Kinds = Annotated[
    list[str] | None,
    typer.Option("--kind", help="Only qa, cloze, number, choice, order, bug or diagram (repeatable)."),
]


def _wanted(
    decks: list[str] | None, topic: list[str] | None, level: list[str] | None, kind: list[str] | None
) -> Wanted:
    from grader.quiz.plan import Wanted

    return Wanted(tuple(map(_chapter, decks or ())), tuple(topic or ()), tuple(level or ()), tuple(kind or ()))


def _chapter(name: str) -> str:
    """The name of a deck or a chapter as we write it: 6 is 06."""
    return name.zfill(2) if name.isdecimal() else name


@app.command()
def quiz(
    decks: Decks = None,
    topic: Topics = None,
    level: Levels = None,
    kind: Kinds = None,
    new: Annotated[
        int | None, typer.Option(min=0, help="New cards today, over all sessions (default: your setting, or 10).")
    ] = None,
    plain: Annotated[bool, typer.Option("--plain", help="Use plain lines instead of the full screen.")] = False,
    stats: Annotated[bool, typer.Option("--stats", help="Print statistics of your reviews, and exit.")] = False,
    export: Annotated[Path | None, typer.Option(metavar="FILE", help="Write your progress as JSON, and exit.")] = None,
    import_: Annotated[
        Path | None,
        typer.Option("--import", metavar="FILE", help="Merge the progress of an export into yours, and exit."),
    ] = None,
    unsuspend: Annotated[
        str | None, typer.Option(metavar="CARD", help="Let the quiz ask a suspended card again, and exit.")
    ] = None,
) -> int:
    """Review the flashcards that are due, and learn new ones.

    On a terminal, the quiz uses the full screen, and ? lists the keys. Through pipes, or with TERM=dumb or --plain, it
    prints plain lines. Your progress is kept in $RANKUP_DATA, or in your data folder, under the ids of the cards.
    Decks of your own are in the folder cards there, and are asked beside ours: `rankup cards new NAME` begins one.
    --import merges the progress of two machines: it keeps each card's latest review, and every answer once.
    """
    from grader import catalog
    from grader.quiz import front

    if sum((stats, export is not None, import_ is not None, unsuspend is not None)) > 1:
        raise BadRequest("give only one of --stats, --export, --import and --unsuspend")
    wanted = _wanted(decks, topic, level, kind)
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
    level: Annotated[str, typer.Option(help="The level that you apply for: mid, senior or principal.")] = "",
    minutes: Annotated[
        float | None,
        typer.Option(help="Length (default: 30, or the round's). 45 or more: with a design round, if one fits."),
    ] = None,
    topic: Annotated[
        list[str] | None, typer.Option(help="Only this topic, chapter (e.g. 06) or area (e.g. training). Repeatable.")
    ] = None,
    design: Annotated[str | None, typer.Option("--round", help="Include this design round, e.g. one-trillion.")] = None,
    seed: Annotated[
        int | None,
        typer.Option(min=0, help="Ask the questions of this seed, as a report names it (default: what suits you)."),
    ] = None,
    speak: Annotated[
        bool, typer.Option("--speak", help="Answer each question aloud in 90 seconds; a bell rings at their end.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="The folder for the report (default: interviews/ next to your exercises).")
    ] = None,
    plain: Annotated[bool, typer.Option("--plain", help="Use plain lines, even on a terminal.")] = False,
) -> int:
    """Take a mock interview, with a clock, rubrics and a report."""
    from grader.classroom import own
    from grader.quiz.interview import session

    with _told():
        into = out or own.home() / own.FOLDER / "interviews"
        wanted = session.Request(level, minutes, tuple(map(_chapter, topic or ())), design, seed, into, plain, speak)
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
    """Check the cards, ours and yours, for errors."""
    from grader import catalog
    from grader.quiz import folder, lint
    from grader.quiz.interview import lint as interviews
    from grader.quiz.interview.task import Question

    with _told():
        levels = {topic.id: topic.levels for topic in catalog.topics()}
        problems = lint.problems(catalog.cards(), levels, catalog.questions())
        asked = [Question(each.id, each.level, each.topic, each.text) for each in catalog.asked()]
        problems += lint.own_problems(folder.own(), catalog.cards())
        problems += interviews.problems(catalog.interview(), asked, levels)
    print("\n".join(problems) or "no problems found in the cards")
    return 1 if problems else 0


@cards_app.command("export")
def export_cards(
    anki: Annotated[Path, typer.Option(help="The .apkg file to write, for Anki's File > Import.")],
    deck: Annotated[str | None, typer.Option(help="A deck, e.g. 06 (default: all decks).")] = None,
) -> int:
    """Export the cards as an Anki package. Importing a newer package updates the cards and keeps their reviews."""
    from grader import catalog
    from grader.quiz import apkg, folder

    if anki.suffix != ".apkg":
        raise BadRequest(f"{anki}: Anki imports only files whose names end in .apkg")
    with _told():
        decks = folder.chosen(catalog.cards(), deck and _chapter(deck))
        count = apkg.export(decks, catalog.cards(), anki)
    print(f"{anki}: {count} cards of {len(decks)} deck{'s' * (len(decks) != 1)}")
    return 0


@cards_app.command("list")
def list_cards(
    decks: Decks = None,
    topic: Topics = None,
    level: Levels = None,
    kind: Kinds = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the cards as JSON, with the whole question.")] = False,
) -> int:
    """List cards. The columns are deck, level, kind, topic, id, and the beginning of the question."""
    from grader import catalog
    from grader.quiz import folder, plan

    with _told():
        cards = plan.choose(_wanted(decks, topic, level, kind), folder.load_all(catalog.cards()))
    keys = ("id", "deck", "topic", "level", "kind", "question")
    rows = [{key: getattr(card, key) for key in keys} for card in cards]
    if as_json:
        print(json.dumps(rows))
    else:
        for row in rows:
            begins = textwrap.shorten(row["question"], 60, placeholder=" ...")
            print(f"{row['deck']}  {row['level']:<9} {row['kind']:<7} {row['topic']:<22} {row['id']:<28} {begins}")
    return 0


@cards_app.command("new")
def new_deck(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The deck's id: lowercase letters, digits, hyphens.")],
) -> int:
    """Begin a deck of your own. The quiz asks it next to ours."""
    from grader.quiz import folder

    with _told():
        print(folder.begin(_chapter(name)))
    return 0
