"""An interview's report, in Markdown and as a page: both by templates, of the same words."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markdown_it import MarkdownIt
from markupsafe import Markup

from grader.quiz.deck import DeckError
from grader.quiz.interview import mentioned
from grader.quiz.interview.summary import Advice, Library, Score, Summary, summarise
from grader.quiz.interview.task import PASSED, Done, Interview, Task, Ticked
from grader.quiz.steps import minutes
from grader.quiz.whole import write_whole

_TEMPLATES = Path(__file__).parent / "templates"
_SAYS = {"mid": "says", "senior": "adds", "principal": "adds"}
_MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable("table").disable("image")


def write(interview: Interview, former: Sequence[Interview], library: Library, folder: Path) -> list[Path]:
    """Write the report to `folder` as DATE-level.md and .html, each whole or not at all; returns their paths.

    A name that is taken gets a number. Raises DeckError.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DeckError(f"{folder}: no report can be written there: {error.strerror}") from None
    summary = summarise(interview, former, library)
    stem = f"{_local(interview.started):%Y-%m-%d}-{interview.level}"
    names = (stem if at == 1 else f"{stem}-{at}" for at in range(1, 10_000))
    stem = next(name for name in names if not any((folder / f"{name}{end}").exists() for end in (".md", ".html")))
    written = []
    for make, end in ((markdown, ".md"), (html, ".html")):
        written.append(folder / f"{stem}{end}")
        write_whole(written[-1], make(interview, summary, folder, library.answers))
    return written


def markdown(interview: Interview, summary: Summary, folder: Path, answers: Mapping[str, Task]) -> str:
    """The report in Markdown, with the model answers; links are relative to `folder`."""
    text = _rendered("report.md", interview, summary, folder, answers)
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def html(interview: Interview, summary: Summary, folder: Path, answers: Mapping[str, Task]) -> str:
    """The report as one file that needs nothing else: light and dark, readable without colours."""
    return _rendered("report.html", interview, summary, folder, answers)


def _rendered(template: str, interview: Interview, summary: Summary, folder: Path, answers: Mapping[str, Task]) -> str:
    calm = "Nothing fell below 60 %. Try a longer interview, or the next level."
    made = Environment(
        loader=FileSystemLoader(_TEMPLATES), autoescape=template.endswith(".html"), undefined=StrictUndefined,
        trim_blocks=True, keep_trailing_newline=True,
    )  # fmt: skip
    named = (answered, cards_due, compared, heading, points, rating, scored, tag, timing, verdict)
    made.filters |= {each.__name__: each for each in named}
    made.filters |= {
        "relative": lambda link: _relative(link, folder),
        "link": lambda pair: f"[{pair[0]}]({_relative(pair[1], folder)})" if pair[1] else pair[0],
        "markdown": lambda text: Markup(_MARKDOWN.render(text)),
        "inline": lambda text: Markup(_MARKDOWN.renderInline(text)),
        "tone": lambda score: "" if not score.most else "good" if score.share >= PASSED else "bad",
        "share": lambda share: f"{share:.0%}",
        "unsaid": mentioned.said,
        "below": lambda text: text.replace("\n", "\n  "),
        "day": lambda at: f"{_local(at):%Y-%m-%d}",
        "fence": lambda text: "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", text)), default=0)),
    }
    return made.get_template(template).render(
        interview=interview, summary=summary, total=summary.total, when=when(interview),
        facts=facts(interview, summary), again=again(interview), answers=answers, sounding=sounding(summary),
        style=Markup((_TEMPLATES / "report.css").read_text()),
        calm=calm if summary.total.most else "Nothing was rated in this interview.",
    )  # fmt: skip


def check_folder(folder: Path) -> None:
    """Raises DeckError if no report can be written to `folder`, which `write` makes if it is not there."""
    there = next((each for each in (folder, *folder.absolute().parents) if each.exists()), folder)
    try:
        probe = there / f".rankup-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise DeckError(f"{folder}: no report can be written there: {error.strerror}") from None


def when(interview: Interview) -> str:
    return f"{_local(interview.started):%d %B %Y, %H:%M}".lstrip("0")


def facts(interview: Interview, summary: Summary) -> str:
    """How long it was, and how it can be drawn again."""
    things = "questions and stages" if interview.round else "questions" if interview.planned > 1 else "question"
    late = sum(each.late for each in interview.done)
    over = f", {late} over time" if late else ""
    reached = (
        f" Follow-ups: {number(summary.follow_ups[0])} of {summary.follow_ups[1]}." if summary.follow_ups[1] else ""
    )
    return (
        f"{len(interview.done)} of {interview.planned} {things}{over}; {minutes(summary.seconds)} of "
        f"{interview.minutes:g} minutes."
        f"{reached} Seed {interview.seed}."
    )


def again(interview: Interview) -> str:
    """The command that asks the same questions."""
    topics = "".join(f" --topic {topic}" for topic in interview.topics)
    more = f" --round {interview.round}" * bool(interview.round) + " --speak" * interview.spoken
    length = f"--level {interview.level} --minutes {interview.minutes:g}"
    return f"rankup interview {length}{topics}{more} --seed {interview.seed}"


def scored(score: Score) -> str:
    """Points and share, and how they stand to former interviews of the same level."""
    return f"{points(score)} points, {score.share:.0%}.{compared(score)}" if score.most else "Nothing was rated."


def sounding(summary: Summary) -> str:
    """Whose answers these sound like, by what a mid, a senior and a principal says; empty where nothing was rated."""
    if not summary.levels:
        return ""
    who = f"like those of a {summary.sounds}" if summary.sounds else "not yet like those of a mid"
    shares = [f"{score.share:.0%} of what a {score.name} {_SAYS[score.name]}" for score in summary.levels]
    return f"Your answers sound {who}: {', '.join(shares)}."


def compared(score: Score) -> str:
    """In a few words, how a score stands to former ones."""
    if score.before is None:
        return ""
    change = round(100 * score.share) - round(100 * score.before)
    word = f"{change:+d}" if change else "the same"
    return f" Before: {score.before:.0%} ({word})."


def points(score: Score) -> str:
    return f"{number(score.earned)} of {number(score.most)}"


def number(value: float) -> str:
    return f"{value:g}"


def timing(done: Done) -> str:
    """The time a task took against its length."""
    over = f", {minutes(done.seconds - 60 * done.minutes)} over" if done.late else ""
    return f"{minutes(done.seconds)} of {minutes(60 * done.minutes)}{over}"


def verdict(done: Done) -> str:
    """A task's points in words."""
    if done.rating == "unrated":
        numbers = f"{number(done.earned)} of {number(done.most)} points for numbers; " if done.most else ""
        return f"{numbers}not rated: you left before the rubric"
    gained = f"{number(done.earned)} of {number(done.most)} points"
    gained += f", after {number(done.hint_cost)} for hints" if done.hint_cost else ""
    return f"skipped, {gained}" if done.rating == "skipped" else gained


def heading(done: Done) -> str:
    return f"{done.round}: {done.title}" if done.round else done.topic


def tag(each: Ticked) -> str:
    """Who says a point, and what it weighs; empty for interviews kept from before points had levels."""
    return f" ({each.level}, {each.weight})" if each.level else ""


def rating(mark: float | None) -> str:
    return {None: "not reached", 0.0: "missed", 0.5: "partly", 1.0: "had it"}[mark]


def answered(question: str, task: Task | None) -> str:
    """The answer to a follow-up; empty where the course has it no more."""
    return next((each.answer for each in task.follow_ups if each.question == question), "") if task else ""


def _relative(link: str, folder: Path) -> str:
    """A link as it is written in a file of `folder`."""
    path, mark, anchor = link.partition("#")
    return Path(os.path.relpath(path, folder)).as_posix().replace(" ", "%20") + mark + anchor


def _local(at: str) -> datetime:
    return datetime.fromisoformat(at).astimezone()


def cards_due(advice: Advice) -> str:
    """Which cards became due."""
    decks = sorted({card.deck for card in advice.cards})
    names = ", ".join(f"`rankup quiz {deck}`" for deck in decks)
    return f"{count_due(advice)} now: {names}."


def count_due(advice: Advice) -> str:
    return f"{len(advice.cards)} {'card is' if len(advice.cards) == 1 else 'cards are'} due"
