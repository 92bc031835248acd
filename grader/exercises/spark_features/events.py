"""The events that spark_features is given, what is right of them, and what is told of a user."""

from __future__ import annotations

import datetime
import json
import random
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Any

from grader.jobs.sparks.engine import Day, Frame

SCHEMA = "event_id string, user_id long, event_type string, category string, value double, timestamp timestamp"
CATEGORIES = ("books", "games", "garden", "music", "shoes", "sports", "tools", "toys")
COLUMNS = {
    "user_id": "a whole number",
    "total_events": "a whole number",
    "total_purchases": "a whole number",
    "avg_purchase_value": "a number",
    "days_since_last_purchase": "a whole number",
    "viewed_categories": "a whole number",
    "favorite_category": "text",
}
Event = dict[str, Any]


@dataclass(frozen=True)
class Given:
    """Events, and the day as of which features are asked for."""

    events: tuple[Event, ...]
    as_of: datetime.date

    @property
    def arguments(self) -> tuple[Frame, Day]:
        return Frame("".join(json.dumps(each) + "\n" for each in self.events), SCHEMA), Day(self.as_of.isoformat())

    def of(self, user: int) -> list[Event]:
        """A user's events up to the end of the day, by time."""
        end = (self.as_of + datetime.timedelta(days=1)).isoformat()
        theirs = [each for each in self.events if each["user_id"] == user and each["timestamp"] < end]
        return sorted(theirs, key=lambda each: (each["timestamp"], each["event_id"]))


def right(given: Given) -> dict[int, Event]:
    """The row of each user who has events up to the end of the day."""
    users = sorted({each["user_id"] for each in given.events})
    return {user: _row(user, events, given.as_of) for user in users if (events := given.of(user))}


def _row(user: int, events: list[Event], as_of: datetime.date) -> Event:
    purchases = [each for each in events if each["event_type"] == "purchase"]
    values = [each["value"] for each in purchases if each["value"] is not None]
    views = _views(events)
    days = [datetime.date.fromisoformat(each["timestamp"][:10]) for each in purchases]
    return {
        "user_id": user,
        "total_events": len(events),
        "total_purchases": len({each["event_id"] for each in purchases}),
        "avg_purchase_value": sum(values) / len(values) if values else None,
        "days_since_last_purchase": (as_of - max(days)).days if days else None,
        "viewed_categories": len(views),
        "favorite_category": min(views, key=lambda name: (-views[name], name)) if views else None,
    }


def _views(events: list[Event]) -> Counter[str]:
    return Counter(each["category"] for each in events if each["event_type"] == "view" and each["category"] is not None)


def why(given: Given, user: int, column: str) -> str:
    """What a user's value of a column comes from, in a sentence."""
    events = given.of(user)
    purchases = [each for each in events if each["event_type"] == "purchase"]
    if column == "total_events":
        return f"The user has {len(events)} rows up to the end of {given.as_of}. Count a row that comes twice as two."
    if column == "total_purchases":
        return f"Count each event id of the purchases once ({_few(each['event_id'] for each in purchases)})."
    if column == "avg_purchase_value":
        told = _few("null" if each["value"] is None else f"{each['value']:g}" for each in purchases)
        return f"The values of the purchase rows are {told}. Average those that are not null. Return null if there are none."
    if column == "days_since_last_purchase":
        last = f"The last purchase was at {purchases[-1]['timestamp']}" if purchases else "There is no purchase"
        more = "Count calendar days in UTC. A purchase without a value counts, too." if purchases else "Return null."
        return f"{last}, and as_of is {given.as_of}. {more}"
    told = _few(f"{name} {count}" for name, count in sorted(_views(events).items()))
    more = "Count different categories of views."
    if column == "favorite_category":
        more = "Count rows of views, and no other event. In a tie take the first category by name. Return null if there are none."
    return f"The user's views by category up to the end of {given.as_of}, without null, are {told}. {more}"


def _few(words: Any) -> str:
    found = list(words)
    return (", ".join(found[:8]) + (f" and {len(found) - 8} more" if len(found) > 8 else "")) or "none"


# ---- what is drawn


def many(rng: random.Random, users: int, count: int) -> Given:
    """Events before the day itself, with all that data has: nulls, duplicates, ties, users without purchases or views,
    types whose names begin alike, and users with hundreds of purchases."""
    as_of, known = _day(rng), _users(rng, users)
    special, others = known[:10], known[10:]
    when = _Times(rng, as_of)
    events = [_event(rng, rng.choice(others), when.before()) for _ in range(count)]
    for user in others:
        events.append(_event(rng, user, when.before()))
    carts, unknown, unpriced, tied, later, same, similar, *many_ids = special
    for user in special:
        events += [_event(rng, user, when.before(), "cart") for _ in range(3)]
    events += [_event(rng, user, when.before(), "cart") for user in (carts,)]
    events += [_event(rng, unknown, when.before(), "view", category=None) for _ in range(3)]
    events += [_event(rng, unpriced, when.before(), "purchase", value=None) for _ in range(2)]
    for name in rng.sample(CATEGORIES, 3):
        events += [_event(rng, tied, when.before(), "view", category=name) for _ in range(2)]
    early, late = sorted([when.before(), when.before()])
    events += [_event(rng, later, early, "purchase", value=10.0), _event(rng, later, late, "purchase", value=None)]
    purchase = _event(rng, same, when.before(), "purchase", value=30.0)
    events += [purchase, purchase, _event(rng, same, when.before(), "purchase", value=60.0)]
    alike, own = rng.sample(CATEGORIES, 2)
    for kind, times, name in (
        ("view_of_cart", 3, alike),
        ("view", 1, own),
        ("purchase_returned", 3, alike),
        ("purchase", 1, own),
    ):
        events += [_event(rng, similar, when.before(), kind, category=name, value=20.0 * times) for _ in range(times)]
    for user in many_ids:  # so many that an approximate count of them is hardly ever right
        events += [_event(rng, user, when.before(), "purchase") for _ in range(rng.randint(300, 390))]
    events += rng.sample(events, len(events) // 10)
    rng.shuffle(events)
    return Given(tuple(events), as_of)


def around(rng: random.Random, users: int) -> Given:
    """Few events of each user, around the end of the day; nothing is missing in them, and no two categories are even."""
    as_of, known = _day(rng), _users(rng, users)
    when = _Times(rng, as_of)
    events: list[Event] = []
    for number, user in enumerate(known):
        now, then = rng.sample(CATEGORIES, 2)
        later = [when.at(1, "00:00:00.000"), when.at(1), *[when.at(rng.randint(1, 5)) for _ in range(4)]]
        times = []
        if number % 4:
            times += [when.at(0, ("00:00:00.000", "12:30:00.000", "23:59:59.999")[number % 3]), when.at(0)]
        if number % 4 == 2:
            times += [when.at(-1, "23:59:59.999"), when.before()]
        for name, moments in ((now, times), (then, later)):
            for time in moments:
                price = round(rng.uniform(1, 200), 2)
                events.append(_event(rng, user, time, "view", category=name, value=None))
                events.append(_event(rng, user, time, "purchase", category=name, value=price))
    rng.shuffle(events)
    return Given(tuple(events), as_of)


class _Times:
    """Times near a day, as ISO texts in UTC."""

    def __init__(self, rng: random.Random, as_of: datetime.date) -> None:
        self._rng, self._as_of = rng, as_of

    def at(self, days: int, clock: str = "") -> str:
        seconds = self._rng.randrange(24 * 3600)
        drawn = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{self._rng.randrange(1000):03}"
        return f"{self._as_of + datetime.timedelta(days=days)}T{clock or drawn}Z"

    def before(self) -> str:
        clock = self._rng.choice(("", "", "", "00:00:00.000", "23:59:59.999"))
        return self.at(-self._rng.randint(1, 60), clock)


def _event(rng: random.Random, user: int, time: str, kind: str = "", **fixed: Any) -> Event:
    kind = kind or rng.choices(("view", "purchase", "cart"), (5, 3, 2))[0]
    priced = rng.random() < (0.8 if kind == "purchase" else 0.5)
    drawn = {
        "event_id": f"e{rng.randrange(10**9):09}",
        "user_id": user,
        "event_type": kind,
        "category": rng.choice(CATEGORIES) if rng.random() < 0.85 else None,
        "value": rng.choice((0.0, *[round(rng.uniform(1, 200), 2)] * 9)) if priced else None,
        "timestamp": time,
    }
    return {**drawn, **fixed}


def _day(rng: random.Random) -> datetime.date:
    return datetime.date(2024, 1, 1) + datetime.timedelta(days=rng.randrange(300))


def _users(rng: random.Random, count: int) -> list[int]:
    return rng.sample(range(1000, 100_000), count)


def none() -> Given:
    """No event at all."""
    return Given((), datetime.date(2024, 5, 1))


def by_user(rows: list[Event]) -> dict[int | str, list[Event]]:
    """Rows of a result by the user they are about."""
    found: dict[int | str, list[Event]] = defaultdict(list)
    for row in rows:
        found[user_of(row)].append(row)
    return found


def user_of(row: Event) -> int | str:
    """Whom a row is about; as text where it is no number."""
    user = row.get("user_id")
    return user if isinstance(user, int) and not isinstance(user, bool) else str(user)
