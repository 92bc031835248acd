"""Which questions an interview asks: by level, minutes, topics, and what the learner is weak at."""

from __future__ import annotations

import difflib
import math
import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from grader.quiz.deck import LEVELS, DeckError
from grader.quiz.interview.rounds import Round
from grader.quiz.interview.task import ALOUD, MINUTES, Task

ROUND_FROM = 45  # minutes from which an interview has a design round
UNKNOWN = 0.5  # the weakness at a topic of which nothing is known
_RECENT = 3  # interviews whose questions are not asked again while there are others
_SEEDS, _TRIED = 1_000_000, 2_000  # seeds there are, and how many of them are looked at


@dataclass(frozen=True)
class Wanted:
    """What the learner asked for; `topics` are those of the syllabus, all if empty."""

    level: str
    minutes: float
    topics: tuple[str, ...] = ()
    round: str | None = None


def choose(
    wanted: Wanted, tasks: Sequence[Task], rounds: Sequence[Round], seed: int
) -> tuple[list[Task], Round | None]:
    """The questions, and the design round, if there is one. The same seed, the same choice, whoever asks.

    Questions are of the level asked. An easier one comes only where none of it is left or fits, and then last; none is
    there twice, and their lengths (MINUTES) stay within `wanted.minutes`. Raises DeckError where nothing fits.
    """
    return _drawn(wanted, _pool(wanted, tasks), _fitting(wanted, rounds), seed)


def seed_for(
    wanted: Wanted,
    tasks: Sequence[Task],
    rounds: Sequence[Round],
    weakness: Mapping[str, float],
    past: Sequence[Collection[str]],
    draw: random.Random,
) -> int:
    """A seed whose choice suits the learner: it asks what was not asked lately, and more of what one is weak at.

    `weakness` is 0 (sure) to 1 (weak) by topic, `past` what former interviews asked (ids of questions, names of
    rounds), oldest first. What somebody knows decides on the seed alone: with it anybody gets the same questions.
    """
    pool, fitting = _pool(wanted, tasks), _fitting(wanted, rounds)
    recent = {each for asked in past[-_RECENT:] for each in asked}
    held = {each.name: max((at for at, asked in enumerate(past) if each.name in asked), default=-1) for each in fitting}
    suits: dict[tuple[int, int], list[tuple[int, float]]] = {}
    for seed in draw.sample(range(_SEEDS), _TRIED):
        chosen, design = _drawn(wanted, pool, fitting, seed)
        again = sum(task.question in recent for task in chosen)
        weights = (0.1 + min(1.0, max(0.0, weakness.get(task.topic, UNKNOWN))) for task in chosen)
        suits.setdefault((held[design.name] if design else 0, again), []).append((seed, math.prod(weights)))
    best = suits[min(suits)]
    return draw.choices([seed for seed, _ in best], [weight for _, weight in best])[0]


def _drawn(
    wanted: Wanted, pool: Sequence[Sequence[Task]], rounds: Sequence[Round], seed: int
) -> tuple[list[Task], Round | None]:
    draw = random.Random(seed)
    design = (
        random.Random(f"{seed} round").choice(rounds) if rounds else None
    )  # asked for by name, it changes no question
    left = wanted.minutes - (design.minutes if design else 0)
    if left < 0:
        assert design is not None
        raise DeckError(
            f"the round {design.name} takes {design.minutes:g} minutes: give it --minutes {design.minutes:g} or more"
        )
    chosen: list[Task] = []
    for tasks in pool:
        for task in draw.sample(tasks, len(tasks)):
            if task.minutes <= left and not (design and task.question in design.questions):
                chosen.append(task)
                left -= task.minutes
        if not chosen and design is None and tasks:
            least = min(task.minutes for task in tasks)
            what = f"no question of level {tasks[0].level} fits into {wanted.minutes:g} minutes"
            raise DeckError(f"{what}; the shortest takes {least:g}")
    if not chosen and design is None:
        about = f" about {', '.join(wanted.topics)}" if wanted.topics else ""
        raise DeckError(f"there is no question of level {wanted.level} or below{about}")
    return chosen, design


def _pool(wanted: Wanted, tasks: Sequence[Task]) -> list[list[Task]]:
    """What may be asked: first of the level asked, then of each below."""
    about = [
        task for task in sorted(tasks, key=lambda task: task.id) if not wanted.topics or task.topic in wanted.topics
    ]
    within = LEVELS[: LEVELS.index(wanted.level) + 1]
    return [[task for task in about if task.level == level] for level in reversed(within)]


def _fitting(wanted: Wanted, rounds: Sequence[Round]) -> list[Round]:
    """The round asked for; else, where there is time, those of the level or below."""
    if wanted.round is not None:
        found = [each for each in rounds if each.name == wanted.round]
        if not found:
            raise unknown("round", wanted.round, [each.name for each in rounds])
        return found
    return [
        each
        for each in rounds
        if wanted.minutes >= max(ROUND_FROM, each.minutes)
        and LEVELS.index(each.level) <= LEVELS.index(wanted.level)
        and (not wanted.topics or each.topic in wanted.topics)
    ]


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


def check(level: str, minutes: float | None, *, spoken: bool) -> None:
    """Raises DeckError if there is no such level, or there are too few minutes."""
    if not level:
        raise DeckError(f"say which level you apply for: --level {', '.join(LEVELS[:-1])} or {LEVELS[-1]}")
    if level not in LEVELS:
        raise DeckError(f"no level is called {level!r}; choose from {', '.join(LEVELS)}")
    least = ALOUD if spoken else min(MINUTES.values())
    if minutes is not None and not least <= minutes <= 480:
        raise DeckError(f"an interview takes {least:g} to 480 minutes, not {minutes:g}")
