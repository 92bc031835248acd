"""`rankup interview`: what is chosen, held, kept and reported."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from grader.quiz import plain, store
from grader.quiz.deck import DeckError
from grader.quiz.folder import load_all
from grader.quiz.front import has_screen, hold
from grader.quiz.interview import choose, content, journal, report, rounds
from grader.quiz.interview.conduct import Clock, Talk
from grader.quiz.interview.journal import Journal
from grader.quiz.interview.summary import Exercise, Library, Reading, summarise, to_repeat
from grader.quiz.interview.task import Interview, Question, Task, aloud, interview_from, to_json
from grader.quiz.interview.weakness import weakness
from grader.quiz.store import Store

MINUTES = 30


@dataclass(frozen=True)
class Course:
    """What the interview is about, as the course has it; `reached` is the share of points in each topic's exercise."""

    interview: Path
    cards: Path
    questions: Sequence[Question]
    chapters: Mapping[str, str]  # of each topic
    readings: Mapping[str, Reading] = field(default_factory=dict)
    exercises: Mapping[str, Exercise] = field(default_factory=dict)
    reached: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Request:
    """What the learner typed; `minutes` None is 30, or the length of the round asked for.

    `spoken`: questions alone, each answered aloud in 90 seconds.
    """

    level: str
    minutes: float | None = None
    topics: tuple[str, ...] = ()
    round: str | None = None
    seed: int | None = None
    out: Path = Path("work", "interviews")
    plain: bool = False
    spoken: bool = False


def run(
    course: Course,
    request: Request,
    *,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
    clock: Clock = time.monotonic,
    read: plain.Read = plain.read_line,
    console: Console | None = None,
) -> int:
    """Hold one interview and report on it; what went wrong is due in the quiz. Returns the exit status.

    Raises DeckError for a bad request, and where content, progress or the report's folder cannot be used.
    """
    console = console or Console(highlight=False)
    choose.check(request.level, request.minutes, spoken=request.spoken)
    if request.spoken and request.round:
        raise DeckError("a design round is answered in writing: leave out --speak or --round")
    asked, every_round = _content(course)
    tasks, designs = (list(map(aloud, asked)), []) if request.spoken else (asked, every_round)
    wanted = _wanted(request, course, tasks, designs)
    report.check_folder(request.out)
    cards = [card for deck in load_all(course.cards) for card in deck.cards]
    answers = {task.id: task for task in (*asked, *(stage for each in every_round for stage in each.stages))}
    library = Library(course.readings, course.exercises, cards, answers)
    with store.opened() as progress:
        journals = store.path().parent / "interviews"
        for left in journal.abandoned(journals):
            _close(left, progress, library, request.out, console, now(), cut_off=True)
        former = _former(progress)
        reviews = [(card, rating) for card, rating, _ in progress.reviews()]
        weak = weakness(library.cards, progress.memories(), reviews, former, course.reached, now())
        past = [{done.question for done in each.done} | {each.round} for each in former]
        seed = request.seed
        if seed is None:
            seed = choose.seed_for(wanted, tasks, designs, weak, past, random.SystemRandom())
        chosen, design = choose.choose(wanted, tasks, designs, seed)
        chosen += design.stages if design else ()
        interview = Interview(
            uuid.uuid4().hex, wanted.level, wanted.minutes, seed, now().isoformat(timespec="seconds"), "",
            len(chosen), wanted.topics, design.name if design else "", spoken=request.spoken,
        )  # fmt: skip
        kept = journal.begin(journals, interview)
        try:
            talk = Talk(_opened(chosen, design), wanted.minutes, clock, kept.add, _plan(interview, design))
            hold(talk.steps(), not request.plain and has_screen(), console, read)
        except BaseException:
            kept.close(remove=False)  # the next interview closes it
            raise
        kept.interview = replace(kept.interview, ended=now().isoformat(timespec="seconds"))
        _close(kept, progress, library, request.out, console, now())
    return 0


def _content(course: Course) -> tuple[list[Task], list[rounds.Round]]:
    entries = {entry.question: entry for entry in content.load_folder(course.interview)}
    tasks = [content.task(each, entries[each.id]) for each in course.questions if each.id in entries]
    if not tasks:
        raise DeckError(f"{course.interview}: there is no interview question with an answer here")
    return tasks, rounds.load_folder(course.interview / "rounds")


def _wanted(request: Request, course: Course, tasks: Sequence[Task], designs: Sequence[rounds.Round]) -> choose.Wanted:
    minutes = request.minutes
    if minutes is None:
        minutes = next((each.minutes for each in designs if each.name == request.round), MINUTES)
    areas: dict[str, set[str]] = {}
    for task in tasks:
        areas.setdefault(task.area, set()).add(task.topic)
    topics = choose.topics_of(request.topics, course.chapters, areas, {task.topic for task in tasks})
    return choose.Wanted(request.level, minutes, topics, request.round)


def _opened(chosen: Iterable[Task], design: rounds.Round | None) -> list[Task]:
    """The tasks, with what the interviewer says first before the round's first stage."""
    return [
        replace(task, prompt=f"{design.opening}\n\n{task.prompt}") if design and task == design.stages[0] else task
        for task in chosen
    ]


def _plan(interview: Interview, design: rounds.Round | None) -> str:
    count = interview.planned - (len(design.stages) if design else 0)
    parts = [f"{count} question{'' if count == 1 else 's'}"] * bool(count)
    parts += [f"the design round {design.name} in {len(design.stages)} stages"] if design else []
    return f"{interview.level}, {interview.minutes:g} minutes: {' and '.join(parts)}. Seed {interview.seed}."


def _former(progress: Store) -> list[Interview]:
    found = []
    for kept in progress.interviews():
        try:
            found.append(interview_from(kept))
        except ValueError:  # of another version: it says nothing here
            continue
    return found


def _close(
    kept: Journal,
    progress: Store,
    library: Library,
    out: Path,
    console: Console,
    now: datetime,
    *,
    cut_off: bool = False,
) -> None:
    """Report, keep and make due what is to be repeated, in this order: a second try after a kill does no harm."""
    interview = kept.interview
    former = _former(progress)
    if not interview.done or interview.key in {each.key for each in former}:
        kept.close(remove=True)
        if not cut_off:
            console.print("Nothing was answered, so there is no report.", markup=False)
        return
    progress.ask_soon(
        [card.id for card in to_repeat([each for each in interview.done if each.failed], library.cards)], now
    )
    problem: DeckError | None = None
    try:
        written = report.write(interview, former, library, out)
    except DeckError as error:
        problem = error
    progress.keep_interview(to_json(interview), now)
    kept.close(remove=True)
    if problem is not None:
        raise problem
    if cut_off:
        console.print("The last interview was cut off. This is the report on its finished part.", markup=False)
    _say(interview, former, library, written, console)


def _say(
    interview: Interview, former: Sequence[Interview], library: Library, written: Iterable[Path], console: Console
) -> None:
    summary = summarise(interview, former, library)
    console.print()
    console.print(f"Interview of {report.when(interview)}: {report.facts(interview, summary)}", markup=False)
    console.print(report.scored(summary.total), style="bold", markup=False)
    if said := report.sounding(summary):
        console.print(said, markup=False)
    for score in summary.areas:
        console.print(
            f"  {score.name:<16} {report.points(score):>10}  {score.share:>4.0%}{report.compared(score)}", markup=False
        )
    for advice in summary.advice:
        chapter = f" read chapter {advice.reading.chapter}" if advice.reading else ""
        exercise = f"{',' if chapter else ''} practice {advice.exercise.name}" if advice.exercise else ""
        count = f"{',' if chapter or exercise else ''} {report.count_due(advice)}" if advice.cards else ""
        console.print(f"  {advice.topic}:{chapter}{exercise}{count}.", markup=False)
    console.print(f"The same questions again: {report.again(interview)}", markup=False, soft_wrap=True)
    console.print(f"Report: {' and '.join(map(str, written))}", markup=False, soft_wrap=True)
