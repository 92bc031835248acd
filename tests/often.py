"""Which cases of a table are tried when: some by `make test`, some by CI each day, all by the soak."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from _pytest.mark import ParameterSet

from grader.authoring import verdicts


def often(cases: Mapping[str, Any] | Iterable[str], *named: str) -> list[ParameterSet]:
    """Parameters for a test: the table's values by their names, tuples taken apart; or the names themselves. `make
    test` tries those that are named; the others, of a second or more each, are heavy."""
    table = cases if isinstance(cases, Mapping) else {name: name for name in cases}
    unknown = set(named) - table.keys()
    assert not unknown, f"no case of the table is called {', '.join(unknown)}"
    return [
        pytest.param(
            *(value if isinstance(value, tuple) else (value,)),
            id=name, marks=[] if name in named else [pytest.mark.heavy],
        )
        for name, value in table.items()
    ]  # fmt: skip


def on_day(day: int, days: int = 4) -> pytest.MarkDecorator:
    """The mark of heavy tests that take long together: in so many days they are tried on one, and in the soak."""
    return pytest.mark.heavy if int(os.environ["RANKUP_SHARE"]) % days == day else pytest.mark.soak


def every_other_day(name: str) -> bool:
    """Whether it is a day of what has this name: half of all names have one day, the others the next."""
    return verdicts.share(name, 2) == int(os.environ["RANKUP_SHARE"]) % 2 + 1


def by_day(cases: Mapping[str, Any] | Iterable[Any], days: int = 4) -> list[ParameterSet]:
    """Parameters for a heavy test that takes long: in so many days each is tried once, and in the soak all are."""
    today = int(os.environ["RANKUP_SHARE"]) % days  # see conftest
    table = cases if isinstance(cases, Mapping) else {str(name): name for name in cases}
    return [
        pytest.param(
            *(value if isinstance(value, tuple) else (value,)),
            id=name, marks=[pytest.mark.heavy if number % days == today else pytest.mark.soak],
        )
        for number, (name, value) in enumerate(table.items())
    ]  # fmt: skip
