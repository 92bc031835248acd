"""An interview's report in Markdown, and both of its files."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from grader.quiz.deck import DeckError
from grader.quiz.interview.summary import Advice, Library, Score, Summary, summarise
from grader.quiz.interview.task import Done, Interview
from grader.quiz.steps import minutes
from grader.quiz.whole import write_whole


def write(interview: Interview, former: Sequence[Interview], library: Library, folder: Path) -> tuple[Path, Path]:
    """Write the report to `folder` as DATE-level.md and .html, each whole or not at all; returns their paths.

    A name that is taken gets a number. Raises DeckError.
    """
    from grader.quiz.interview import page

    check_folder(folder)
    summary = summarise(interview, former, library)
    stem = f"{_local(interview.started):%Y-%m-%d}-{interview.level}"
    names = (stem if at == 1 else f"{stem}-{at}" for at in range(1, 10_000))
    stem = next(name for name in names if not any((folder / f"{name}{end}").exists() for end in (".md", ".html")))
    written = folder / f"{stem}.md", folder / f"{stem}.html"
    for path, text in zip(
        written, (markdown(interview, summary, folder), page.html(interview, summary, folder)), strict=True
    ):
        write_whole(path, text)
    return written


def check_folder(folder: Path) -> None:
    """Raises DeckError if no report can be written to `folder`, which is made if it is not there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".rankup-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise DeckError(f"{folder}: no report can be written there: {error.strerror}") from None


def markdown(interview: Interview, summary: Summary, folder: Path) -> str:
    """The report; links are relative to `folder`."""
    total = summary.total
    parts = [f"# Mock interview, {interview.level}, {when(interview)}", facts(interview, summary)]
    parts.append(f"**{points(total)} points, {total.share:.0%}.**{compared(total)}")
    parts.append(_table("Area", summary.areas) + "\n\n" + _table("Topic", summary.topics))
    parts.append("## What to do next")
    parts += [_advice(each, folder) for each in summary.advice] or [
        "Nothing fell below 60 %. Ask for a longer interview, or the next level."
        if total.most
        else "Nothing was rated in this interview."
    ]
    parts.append("## Question by question")
    parts += [_question(at, done) for at, done in enumerate(interview.done, start=1)]
    if summary.former:
        parts.append("## Former interviews")
        rows = [
            f"| {_local(at):%Y-%m-%d} | {level} | {points(score)} | {score.share:.0%} |"
            for at, level, score in summary.former
        ]
        parts.append("\n".join(["| Day | Level | Points | Share |", "|---|---|---|---|", *rows]))
    return "\n\n".join(parts) + "\n"


def when(interview: Interview) -> str:
    return f"{_local(interview.started):%d %B %Y, %H:%M}".lstrip("0")


def facts(interview: Interview, summary: Summary) -> str:
    """How long it was, and how it can be drawn again."""
    count = len(interview.done)
    done = f"{count} of {interview.planned}" if count < interview.planned else f"all {count}" if count > 1 else "the"
    things = "questions and stages" if interview.planned > 1 else "one question"
    late = sum(each.late for each in interview.done)
    over = f", {late} of them over time" if late else ""
    reached = (
        f" Follow-ups: {number(summary.follow_ups[0])} of {summary.follow_ups[1]}." if summary.follow_ups[1] else ""
    )
    return (
        f"{done.capitalize()} {things}{over}; {minutes(summary.seconds)} of {interview.minutes:g} minutes."
        f"{reached} Seed {interview.seed}."
    )


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


def rating(mark: float | None) -> str:
    return {None: "not reached", 0.0: "missed", 0.5: "partly", 1.0: "had it"}[mark]


def relative(link: str, folder: Path) -> str:
    """A link as it is written in a file of `folder`."""
    path, mark, anchor = link.partition("#")
    return Path(os.path.relpath(path, folder)).as_posix() + mark + anchor


def _local(at: str) -> datetime:
    return datetime.fromisoformat(at).astimezone()


def _table(name: str, scores: Sequence[Score]) -> str:
    rows = [
        f"| {each.name} | {points(each)} | {each.share:.0%} | {'' if each.before is None else f'{each.before:.0%}'} |"
        for each in scores
    ]
    return "\n".join([f"| {name} | Points | Share | Before |", "|---|---|---|---|", *rows])


def _advice(advice: Advice, folder: Path) -> str:
    lines = [f"**{advice.topic}**: {points(advice.score)} points."]
    if reading := advice.reading:
        title = f"chapter {reading.chapter}, {reading.section or reading.title}"
        link = f"[{title}]({relative(reading.link, folder).replace(' ', '%20')})" if reading.link else title
        lines.append(f"- Read {link} (`rankup lab {reading.chapter}`).")
    if exercise := advice.exercise:
        link = f"[{exercise.name}]({relative(exercise.link, folder)})" if exercise.link else exercise.name
        lines.append(f"- Practise {link} (`rankup start {exercise.name}`).")
    if advice.cards:
        lines.append(f"- {cards_due(advice)}")
    return f"{lines[0]}\n\n" + "\n".join(lines[1:])


def cards_due(advice: Advice) -> str:
    """Which cards became due."""
    decks = sorted({card.deck for card in advice.cards})
    names = ", ".join(f"`rankup quiz {deck}`" for deck in decks)
    return f"{count_due(advice)} now: {names}."


def count_due(advice: Advice) -> str:
    return f"{len(advice.cards)} {'card is' if len(advice.cards) == 1 else 'cards are'} due"


def _question(at: int, done: Done) -> str:
    parts = [f"### {at}. {heading(done)} ({done.level})", done.prompt, f"{verdict(done)}; {timing(done)}.".capitalize()]
    parts += [
        f"- {each.question}\n\n  You said {' and then '.join(each.typed) or 'nothing'}; it is {each.right}."
        for each in done.guesses
    ]
    if done.written:
        longest = max((len(run) for run in re.findall(r"`+", done.written)), default=0)
        fence = "`" * max(3, longest + 1)
        parts.append(f"Your answer:\n\n{fence}text\n{done.written}\n{fence}")
    if done.rating != "unrated":
        had = [f"- [{'x' if ticked else ' '}] {point}" for point, ticked in done.ticked]
        parts.append("What an interviewer listens for:\n\n" + "\n".join(had))
    reached = [f"- {question} *{rating(mark)}*" for question, mark in done.follow_ups if mark is not None]
    if reached:
        parts.append("Follow-ups:\n\n" + "\n".join(reached))
    return "\n\n".join(parts)
