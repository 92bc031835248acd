"""What a run needs of a database: a table of lists or registers, sessions, and who waits for whom."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Protocol

Value = tuple[int, ...] | int | None  # of a list what is in it, of a register the last value


class Refused(Exception):  # noqa: N818 - what the database said
    """The database refused a statement, so its transaction did not happen. The text says why, in its words."""


class Lost(Exception):  # noqa: N818 - what happened
    """The connection is gone."""


class Session(Protocol):
    """One connection. Every method raises Refused or Lost, or BadRequest for what no run can go on with."""

    pid: int  # by which `Database.waits` knows it

    def begin(self) -> None: ...

    def read(self, key: int) -> Value: ...

    def write(self, key: int, value: int) -> None:
        """Append the value to the list, or make it the register's."""
        ...

    def commit(self) -> None: ...

    def rollback(self) -> None: ...

    def cancel(self) -> None:
        """Have a statement that runs in another thread end soon."""
        ...

    def close(self) -> None: ...


class Database(Protocol):
    """A database, with one table for one run."""

    name: str  # with its version: "PostgreSQL 15.13"
    said: str  # the level, in the database's own words: "REPEATABLE READ"
    table: str

    def create(self, keys: Iterable[int]) -> None:
        """Make the table, with an empty list or register for each key."""
        ...

    def connect(self) -> Session: ...

    def waits(self, pids: Collection[int]) -> Mapping[int, frozenset[int]]:
        """For each of these sessions, those that hold what it waits for; an empty set where it does not wait."""
        ...

    def close(self) -> None:
        """Remove the table, and all else that the run made. Raises BadRequest where that cannot be done."""
        ...


def as_list(text: str | None) -> tuple[int, ...]:
    """A list as it is stored: "1,2,3"."""
    return tuple(map(int, text.split(","))) if text else ()


def one_line(error: Any) -> str:
    """A driver's error, for one sentence."""
    return " ".join(str(error).split()).rstrip(".")
