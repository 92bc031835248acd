"""What to do next, and why: plain rules in order, each with the fact that it rests on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from grader.standing.gather import Part, Standing

READ = 0.8  # of a chapter's cells: then it counts as read
WEAK = 0.6  # of an interview's points on a topic: below, it is to be learnt again
MANY_DUE = 5  # cards: fewer can wait until something else is done
BETWEEN_INTERVIEWS = timedelta(days=7)


@dataclass(frozen=True)
class Step:
    """Something to do: what to type, in words, and why now."""

    command: str
    what: str
    why: str


def steps(standing: Standing, most: int = 3) -> list[Step]:
    """The next steps, the first first. There is always one."""
    found: list[Step] = []
    for step in _all(standing):
        if len(found) < most and step.command not in {each.command for each in found}:
            found.append(step)
    return found


def _all(standing: Standing) -> Iterator[Step]:
    if standing.due >= MANY_DUE:
        yield _review(standing)
    yield from _weak(standing)
    for part in standing.parts:
        yield from _begun(part)
    if 0 < standing.due < MANY_DUE:
        yield _review(standing)
    read = [part for part in standing.parts if part.read >= READ]
    for part in read:
        yield from _untried(part)
    for part in read:
        if part.cards.total and not part.cards.seen:
            why = f"you have read chapter {part.id} and seen none of its {part.cards.total} cards"
            yield Step(f"rankup quiz {part.id}", f"learn the first cards of chapter {part.id}", why)
    last = standing.last_interview
    if len(read) >= 3 and (last is None or standing.now - last > BETWEEN_INTERVIEWS):
        ago = "" if last is None else f" for {(standing.now - last).days} days"
        why = f"you have read {len(read)} chapters and not held an interview{ago or ' yet'}"
        yield Step("rankup interview --level mid", "hold a mock interview", why)
    solved = [number for number, part in enumerate(standing.parts) if any(each.done for each in part.exercises)]
    for number in solved:
        yield from _untried(standing.parts[number])
    since = max(solved, default=0)  # who has solved exercises of chapter 06 is not sent back to chapter 00
    for part in (*standing.parts[since:], *standing.parts[:since]):
        if part.written and not part.run:
            first = not solved and part is next(each for each in standing.parts if each.written)
            why = "the course begins here" if first else f"it comes next, and has {part.cells} cells to run"
            yield Step(f"rankup lab {part.id}", f"read chapter {part.id}, {part.title}", why)
            break
    for part in standing.parts:
        yield from _untried(part)
    yield Step("rankup interview --level principal", "hold an interview at the top level", "everything else is done")


def _review(standing: Standing) -> Step:
    cards = "1 card is due" if standing.due == 1 else f"{standing.due} cards are due"
    waited = f", one of them for {standing.overdue_days:.0f} days" if standing.overdue_days >= 2 else ""
    return Step("rankup quiz", "review what is due", f"{cards}{waited}, and a review in time saves work later")


def _weak(standing: Standing) -> Iterator[Step]:
    """Topics that the last interview on them went badly in, the worst first: practise, or read again."""
    weak = [
        (score.share, topic, score, part)
        for part in standing.parts
        for topic, score in part.topics.items()
        if score.points and score.share < WEAK
    ]
    for _, topic, score, part in sorted(weak, key=lambda each: each[:2]):
        why = f"your last interview on {topic} earned {score.met:g} of {score.points:g} points"
        practice = next((each for each in part.exercises if topic in each.topics and not each.done), None)
        again = " again" if part.run else ""
        if practice is not None and part.read >= READ:
            yield Step(f"rankup start {practice.name}", f"solve {practice.name}", why)
        else:
            yield Step(f"rankup lab {part.id}", f"read chapter {part.id}{again}, on {topic}", why)


def _begun(part: Part) -> Iterator[Step]:
    for each in part.exercises:
        if each.points is not None and not each.done:
            tries = "1 try" if each.attempts == 1 else f"{each.attempts} tries"
            why = f"you have {each.points:g} of its {each.max_points:g} points after {tries}"
            yield Step(f"rankup grade {each.name}", f"continue {each.name}", why)
    if 0 < part.read < READ:
        why = f"you have run {part.run} of its {part.cells} cells"
        yield Step(f"rankup lab {part.id}", f"continue chapter {part.id}, {part.title}", why)


def _untried(part: Part) -> Iterator[Step]:
    for each in part.exercises:
        if each.points is None:
            worth = f"worth {each.max_points:g} points in about {each.minutes} minutes"
            why = f"it practices chapter {part.id}, and is {worth}"
            yield Step(f"rankup start {each.name}", f"solve {each.name}", why)
