"""Which cases of a table `make test` tries: those that are named; the others, of a second or more each, are heavy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from _pytest.mark import ParameterSet


def often(cases: Mapping[str, Any] | Iterable[str], *named: str) -> list[ParameterSet]:
    """Parameters for a test: the table's values by their names, tuples taken apart; or the names themselves."""
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
