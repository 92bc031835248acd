"""Which questions an interview asks: by level, minutes, topics, and what the learner is weak at."""

from __future__ import annotations

import difflib
import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from grader.quiz.deck import LEVELS, DeckError
from grader.quiz.interview.rounds import Round
from grader.quiz.interview.task import MINUTES, Task

ROUND_FROM = 45  # minutes from which an interview has a design round
UNKNOWN = 0.5  # the weakness at a topic of which nothing is known
_RECENT = 3  # interviews whose questions are not asked again while there are others
_BELOW = 0.4  # how much likelier a question is than the same one a level higher


@dataclass(frozen=True)
class Wanted:
    """What the learner asked for; `topics` are those of the syllabus, all if empty."""

    level: str
    minutes: float
    topics: tuple[str, ...] = ()
    round: str | None = None


def choose(
    wanted: Wanted,
    tasks: Sequence[Task],
    rounds: Sequence[Round],
    weakness: Mapping[str, float],
    past: Sequence[Collection[str]],
    seed: int,
) -> tuple[list[Task], Round | None]:
    """The questions, the easier levels first, and the design round, if there is one. The same seed, the same choice.

    `weakness` is 0 (sure) to 1 (weak) by topic, `past` what former interviews asked (ids of questions, names of
    rounds), oldest first. Questions of the level asked and of those below are drawn without repeating any, weighted by
    weakness; their lengths (MINUTES) stay within `wanted.minutes`, and while the level asked has questions that fit,
    at least one is of it. Raises DeckError where nothing fits.
    """
    draw = random.Random(seed)
    design = _round(wanted, rounds, past, draw)
    left = wanted.minutes - (design.minutes if design else 0)
    if left < 0:
        assert design is not None
        raise DeckError(
            f"the round {design.name} takes {design.minutes:g} minutes: give it --minutes {design.minutes:g} or more"
        )
    within = LEVELS[: LEVELS.index(wanted.level) + 1]
    pool = [
        task
        for task in sorted(tasks, key=lambda task: task.id)
        if task.level in within
        and (not wanted.topics or task.topic in wanted.topics)
        and not (design and task.question in design.questions)
    ]
    recent = {each for asked in past[-_RECENT:] for each in asked}
    chosen: list[Task] = []
    while fitting := [task for task in pool if task not in chosen and task.minutes <= left]:
        fresh = [task for task in fitting if task.question not in recent] or fitting
        if not any(task.level == wanted.level for task in chosen):
            fresh = [task for task in fresh if task.level == wanted.level] or fresh
        weights = [_weight(task, wanted.level, weakness) for task in fresh]
        chosen.append(draw.choices(fresh, weights)[0])
        left -= chosen[-1].minutes
    if not chosen and design is None:
        raise _nothing(wanted, pool)
    return sorted(chosen, key=lambda task: LEVELS.index(task.level)), design


def _weight(task: Task, level: str, weakness: Mapping[str, float]) -> float:
    below = LEVELS.index(level) - LEVELS.index(task.level)
    return (0.1 + min(1.0, max(0.0, weakness.get(task.topic, UNKNOWN)))) * _BELOW**below


def _nothing(wanted: Wanted, pool: Sequence[Task]) -> DeckError:
    if pool:
        least = min(task.minutes for task in pool)
        return DeckError(f"no question fits into {wanted.minutes:g} minutes; the shortest takes {least:g}")
    about = f" about {', '.join(wanted.topics)}" if wanted.topics else ""
    return DeckError(f"there is no question of level {wanted.level} or below{about}")


def _round(
    wanted: Wanted, rounds: Sequence[Round], past: Sequence[Collection[str]], draw: random.Random
) -> Round | None:
    """The round asked for; else, where there is time, one of the level or below that was not asked for longest."""
    if wanted.round is not None:
        found = next((each for each in rounds if each.name == wanted.round), None)
        if found is None:
            raise unknown("round", wanted.round, [each.name for each in rounds])
        return found
    if wanted.minutes < ROUND_FROM:
        return None
    fitting = [
        each
        for each in rounds
        if LEVELS.index(each.level) <= LEVELS.index(wanted.level)
        and each.minutes <= wanted.minutes
        and (not wanted.topics or each.topic in wanted.topics)
    ]
    if not fitting:
        return None
    last = {each.name: max((at for at, asked in enumerate(past) if each.name in asked), default=-1) for each in fitting}
    return draw.choice([each for each in fitting if last[each.name] == min(last.values())])


def topics_of(
    said: Sequence[str], topics: Mapping[str, str], areas: Mapping[str, Collection[str]], asked: Collection[str]
) -> tuple[str, ...]:
    """The topics that are meant by ids of topics, chapters ("06") or areas ("training"). Raises DeckError.

    `topics` says each topic's chapter, `areas` each area's topics, `asked` the topics that have a question.
    """
    found: set[str] = set()
    for each in said:
        meant = {topic for topic, chapter in topics.items() if each in (topic, chapter)} | set(areas.get(each, ()))
        if not meant:
            raise unknown("topic", each, [*topics, *sorted({*topics.values()}), *areas])
        if not meant & set(asked):
            raise DeckError(f"no interview question is about {each!r}; `rankup quiz` has cards on it")
        found |= meant & set(asked)
    return tuple(sorted(found))


def unknown(kind: str, name: str, there: Sequence[str]) -> DeckError:
    """The sentence for a name that is not there, with the nearest one that is."""
    near = difflib.get_close_matches(name, there, n=1, cutoff=0.5)
    listed = (
        f"did you mean {near[0]!r}?"
        if near
        else f"choose from {', '.join(there[:12]) or 'none'}" + " ..." * (len(there) > 12)
    )
    return DeckError(f"no {kind} is called {name!r}; {listed}")


def check(level: str, minutes: float | None) -> None:
    """Raises DeckError if there is no such level, or there are too few minutes."""
    if level not in LEVELS:
        raise DeckError(f"no level is called {level!r}; choose from {', '.join(LEVELS)}")
    if minutes is not None and not min(MINUTES.values()) <= minutes <= 480:
        raise DeckError(f"an interview takes {min(MINUTES.values())} to 480 minutes, not {minutes:g}")
