"""How times and counts are said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from grader.quiz.deck import Card
from grader.quiz.schedule import AGAIN, RATINGS, Memory
from grader.quiz.store import Answer, local_day

_UNITS = (("d", timedelta(days=1)), ("h", timedelta(hours=1)), ("min", timedelta(minutes=1)))
_LEAST = timedelta(seconds=1)
_HORIZONS = (
    ("now", timedelta(0)),
    ("within the hour", timedelta(hours=1)),
    ("within a day", timedelta(days=1)),
    ("within a week", timedelta(weeks=1)),
    ("later", timedelta.max),
)


def short(wait: timedelta) -> str:
    """A wait on a button: "10 min", "3 h", "8 d"."""
    for name, unit in _UNITS:
        if wait >= unit:
            return f"{round(wait / unit)} {name}"
    return "now" if wait <= timedelta(0) else "1 min"


def until(wait: timedelta) -> str:
    """A wait in a sentence: "in 8 days", "now"."""
    for name, unit in (("days", timedelta(days=1)), ("hours", timedelta(hours=1)), ("minutes", timedelta(minutes=1))):
        if wait >= 2 * unit:
            return f"in {wait // unit} {name}"
    return "now" if wait <= timedelta(0) else "in a minute"


def ratings(waits: Mapping[int, timedelta]) -> str:
    """The four ratings with what each leads to."""
    return "  ".join(f"{rating} {name} ({short(waits[rating])})" for rating, name in RATINGS.items())


def answered(answers: Sequence[Answer], took: timedelta) -> list[str]:
    """What was answered, how much of it was right at first, and how much of what was known before was retained."""
    first: dict[str, Answer] = {}
    for answer in answers:
        first.setdefault(answer.card, answer)
    old = [answer.rating for answer in first.values() if answer.before is not None]
    retained = f", {sum(rating != AGAIN for rating in old)} of them retained" if old else ""
    lines = [f"Answered {len(first)}: {len(first) - len(old)} new, {len(old)} seen before{retained}."]
    if first:
        right = sum(answer.rating != AGAIN for answer in first.values())
        lines.append(f"At the first try {right} right and {len(first) - right} wrong, in {short(max(took, _LEAST))}.")
    return lines


def due(cards: Sequence[Card], memories: Mapping[str, Memory], now: datetime) -> list[str]:
    """What is due when, and how much was never seen: a sentence a line."""
    known = [memories[card.id] for card in cards if card.id in memories]
    waits = [timedelta(0) if memory.is_due(now) else memory.due - now for memory in known]
    counts = dict.fromkeys((name for name, _ in _HORIZONS), 0)
    for wait in waits:
        counts[next(name for name, horizon in _HORIZONS if wait <= horizon)] += 1
    parts = [f"{count} {name}" for name, count in counts.items() if count]
    lines = []
    if waits:
        tomorrow = sum((local_day(memory.due) - local_day(now)).days == 1 for memory in known)
        lines.append(f"Due: {', '.join(parts)}; the next {until(min(waits))}. Tomorrow: {tomorrow}.")
    if unseen := sum(card.id not in memories and not card.predict for card in cards):
        lines.append(f"Not seen yet: {unseen}.")
    return lines
