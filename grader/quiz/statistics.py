"""How the learning goes, counted from the progress, and drawn in lines of text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from grader.quiz.deck import Card
from grader.quiz.schedule import AGAIN
from grader.quiz.store import Store, local_day

FORECAST = 30  # days
RECENT = 30  # days of which retention and reviews a day are told
MATURE = timedelta(days=21)  # from this wait on a card counts as mature, as in Anki


@dataclass(frozen=True)
class Retained:
    """How many of so many answers, each a day or more after the one before, were not `again`."""

    answers: int
    right: int


@dataclass(frozen=True)
class Chapter:
    """One deck's cards: all, those seen, those known (seen and not due), those due."""

    deck: str
    cards: int
    seen: int
    known: int
    due: int


@dataclass(frozen=True)
class Statistics:
    """All that is drawn. Days are the learner's own."""

    today: date
    overdue: int  # due before today
    forecast: tuple[int, ...]  # due today, tomorrow, ...
    young: Retained
    mature: Retained
    chapters: tuple[Chapter, ...]
    days: tuple[int, ...]  # answers a day, today's last
    suspended: int


def count(cards: Sequence[Card], store: Store, now: datetime) -> Statistics:
    """Count what the progress says of `cards`."""
    memories, aside, today = store.memories(), store.suspended(), local_day(now)
    wanted = {card.id: card.deck for card in cards}
    waiting: Counter[int] = Counter()
    for card in wanted:
        if card in memories and card not in aside:
            memory = memories[card]
            waiting[0 if memory.is_due(now) else max(0, (local_day(memory.due) - today).days)] += 1
    overdue = sum(
        card in wanted and card not in aside and local_day(memory.due) < today for card, memory in memories.items()
    )
    days: Counter[int] = Counter()
    answers: dict[bool, Counter[bool]] = {False: Counter(), True: Counter()}
    last: dict[str, datetime] = {}
    for card, rating, at in store.reviews():
        if card not in wanted:
            continue
        ago = (today - local_day(at)).days
        days[ago] += 1
        gap = at - last.get(card, at)
        if gap >= timedelta(days=1) and 0 <= ago < RECENT:
            answers[gap >= MATURE][rating != AGAIN] += 1
        last[card] = at
    chapters = []
    for deck in dict.fromkeys(wanted.values()):
        ids = [card for card, its in wanted.items() if its == deck]
        seen = [card for card in ids if card in memories]
        due = sum(memories[card].is_due(now) and card not in aside for card in seen)
        chapters.append(Chapter(deck, len(ids), len(seen), len(seen) - due, due))
    return Statistics(
        today,
        overdue,
        tuple(waiting[day] for day in range(FORECAST)),
        Retained(answers[False].total(), answers[False][True]),
        Retained(answers[True].total(), answers[True][True]),
        tuple(chapters),
        tuple(days[ago] for ago in reversed(range(RECENT))),
        sum(card in wanted for card in aside),
    )


def streak(store: Store, now: datetime) -> int:
    """On how many days in a row something was answered, up to today, or to yesterday while today is not over."""
    days = {local_day(at) for _, _, at in store.reviews()}
    day = local_day(now)
    day -= timedelta(days=day not in days)
    first = day
    while first in days:
        first -= timedelta(days=1)
    return (day - first).days


def lines(counted: Statistics, width: int = 80) -> list[str]:
    """The statistics as lines of at most `width` columns."""
    drawn = [f"Due in the next {FORECAST} days", ""]
    drawn += _columns(counted.forecast, counted.today, forwards=True)
    rest = f", {counted.overdue} of them from before today" if counted.overdue else ""
    drawn += [f"{sum(counted.forecast)} in total, {counted.forecast[0]} today{rest}.", ""]
    drawn += [f"Retention, last {RECENT} days (answers a day or more after the previous one)", ""]
    both = Retained(counted.young.answers + counted.mature.answers, counted.young.right + counted.mature.right)
    for name, part in (("young, < 21 d", counted.young), ("mature", counted.mature), ("both", both)):
        share = f"{part.right / part.answers:6.1%}" if part.answers else "     -"
        bar = f"{_bar(part.right, part.answers, 20)}  " if width >= 60 else ""
        drawn.append(f"{name:<14} {share}  {bar}{part.right} of {part.answers}")
    drawn += ["", "By chapter: # known, = due, . new", ""]
    room = max(8, min(40, width - 40))
    drawn.append(f"{'deck':<8}{'cards':>6}{'seen':>6}{'known':>7}{'due':>5}")
    for chapter in counted.chapters:
        bar = _shares((chapter.known, chapter.due, chapter.cards - chapter.seen), "#=.", room)
        name = chapter.deck if len(chapter.deck) < 8 else chapter.deck[:6] + "…"
        drawn.append(f"{name:<8}{chapter.cards:>6}{chapter.seen:>6}{chapter.known:>7}{chapter.due:>5}  {bar}")
    if counted.suspended:
        drawn.append(f"Suspended: {counted.suspended}.")
    drawn += ["", f"Answers per day in the last {RECENT} days", ""]
    drawn += _columns(counted.days, counted.today, forwards=False)
    drawn.append(f"{sum(counted.days)} in total, {counted.days[-1]} today.")
    return drawn


_HEIGHT = 5
_EIGHTHS = " ▁▂▃▄▅▆▇█"


def _columns(counts: Sequence[int], today: date, *, forwards: bool) -> list[str]:
    """A column for each day, with a scale at the left and days below."""
    most = max(*counts, 1)
    scale = len(str(most))
    drawn = []
    for row in reversed(range(_HEIGHT)):
        cells = []
        for value in counts:
            filled = value / most * _HEIGHT * 8 - row * 8
            least = 1 if value and row == 0 else 0  # what is there is seen
            cells.append(_EIGHTHS[max(least, min(8, round(filled)))])
        label = {_HEIGHT - 1: str(most), 0: "0"}.get(row, "")
        drawn.append(f"{label:>{scale}} │{''.join(cells)}".rstrip())
    drawn.append(f"{'':>{scale}} └{'─' * len(counts)}")
    days = len(counts)
    first, last = (today, today + timedelta(days=days - 1)) if forwards else (today - timedelta(days=days - 1), today)
    names = ("today" if forwards else _day(first)), (_day(last) if forwards else "today")
    gap = " " * max(1, days - len(names[0]) - len(names[1]))
    drawn.append(f"{'':>{scale}}  {names[0]}{gap}{names[1]}")
    return drawn


def _day(day: date) -> str:
    return f"{day.day} {day:%b}"


def _bar(part: int, whole: int, room: int) -> str:
    filled = round(room * part / whole) if whole else 0
    return "[" + "#" * filled + "." * (room - filled) + "]"


def _shares(parts: Sequence[int], signs: str, room: int) -> str:
    """A bar whose parts are as long as their share, at least one sign for what is there."""
    whole = sum(parts)
    if not whole:
        return ""
    lengths = [max(1, int(room * part / whole)) if part else 0 for part in parts]
    lengths[lengths.index(max(lengths))] += room - sum(lengths)
    return "".join(sign * length for sign, length in zip(signs, lengths, strict=True))
