"""The tables that spark_skew is given, and the rows that are right of them."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import dataclass
from typing import Any

from grader.jobs.sparks.engine import Frame

Row = dict[str, Any]
Values = tuple[Any, ...]
EVENTS = "event_id long, user_id long, event_type string, value double"
USERS = "user_id long, name string, country string"
COUNTRIES = "country string, country_name string"
COLUMNS = {
    "event_id": "a whole number",
    "user_id": "a whole number",
    "event_type": "text",
    "value": "a number",
    "name": "text",
    "country": "text",
    "country_name": "text",
}
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True)
class Given:
    """The three tables, and the user who has half the events."""

    events: tuple[Row, ...]
    users: tuple[Row, ...]
    countries: tuple[Row, ...]
    hot: int

    @property
    def arguments(self) -> tuple[Frame, Frame, Frame]:
        tables = (self.events, EVENTS), (self.users, USERS), (self.countries, COUNTRIES)
        events, users, countries = (
            Frame("".join(json.dumps(row) + "\n" for row in rows), schema) for rows, schema in tables
        )
        return events, users, countries

    @property
    def hot_events(self) -> int:
        """How many rows the one user has."""
        return sum(event["user_id"] == self.hot for event in self.events)

    @property
    def without_hot(self) -> int:
        """How many rows come before the first of that user."""
        return next((at for at, event in enumerate(self.events) if event["user_id"] == self.hot), len(self.events))

    def knows(self, user: Any) -> bool:
        """Whether a user has a row."""
        return any(each["user_id"] == user for each in self.users)


def right(given: Given) -> Counter[Values]:
    """The rows that both inner joins give, and how often each comes; values in the order of COLUMNS."""
    users = {user["user_id"]: user for user in given.users if user["user_id"] is not None}
    countries = {country["country"]: country for country in given.countries if country["country"] is not None}
    found: Counter[Values] = Counter()
    for event in given.events:
        user = users.get(event["user_id"])
        country = countries.get(user["country"]) if user else None
        if user and country:
            found[values({**event, **user, **country})] += 1
    return found


def counted(rows: list[Row]) -> Counter[Values]:
    """How often each row comes."""
    return Counter(map(values, rows))


def told(row: Values) -> str:
    """A row as a learner reads it."""
    said = [f"{name} {_plain(value)}" for name, value in zip(COLUMNS, row, strict=True)]
    return ", ".join(said)


def _plain(value: Any) -> str:
    return "null" if value is None else str(value)[:30]


def values(row: Row) -> Values:
    """A row's values in the order of COLUMNS; what no JSON number or text is, as text."""
    plain = (row.get(name) for name in COLUMNS)
    return tuple(value if value is None or isinstance(value, int | float | str) else str(value) for value in plain)


def drawn(
    rng: random.Random, events: int, users: int, countries: int, late: bool = False, unknown: bool = False
) -> Given:
    """Half of the events are one user's. Some rows come twice, and some keys are null or lead nowhere. With `late`, this
    user's events come last; with `unknown`, this user is not among the users."""
    codes = sorted({"".join(rng.choices(_LETTERS, k=2)).upper() for _ in range(countries * 2)})
    rng.shuffle(codes)
    known, elsewhere = codes[:countries], codes[countries] if len(codes) > countries else "??"
    names: list[Row] = [{"country": code, "country_name": _name(rng).title()} for code in known]
    ids = rng.sample(range(10_000, 1_000_000), users + 5)
    there, strangers = ids[:users], ids[users:]
    people: list[Row] = [{"user_id": user, "name": _name(rng), "country": rng.choice(known[:-1])} for user in there]
    hot = there[0]
    for number, user in enumerate(people[1:]):
        if number % 20 < 2:
            user["country"] = None if number % 20 else elsewhere
    people[-1]["user_id"], names[-1]["country"] = None, None  # null, which joins with nothing
    keys: list[int | None] = [hot] * (events // 2)
    keys += [rng.choice(there[1:]) for _ in range(events - len(keys))]
    for number in range(0, events - events // 2, 12):
        keys[events // 2 + number] = None if number % 24 else rng.choice(strangers)
    made = [
        {
            "event_id": number - events // 4,  # half of the one user's are below zero, where a remainder is, too
            "user_id": key,
            "event_type": rng.choice(("view", "cart", "purchase")),
            "value": round(rng.uniform(1, 200), 2) if rng.random() < 0.8 else None,
        }
        for number, key in enumerate(keys)
    ]
    made += rng.sample(made, events // 20)
    for rows in (made, people, names):
        rng.shuffle(rows)
    if late:
        made.sort(key=lambda event: event["user_id"] == hot)
    if unknown:
        people = [user for user in people if user["user_id"] != hot]
    return Given(tuple(made), tuple(people), tuple(names), hot)


def _name(rng: random.Random) -> str:
    return "".join(rng.choices(_LETTERS, k=rng.randint(5, 9)))
