"""Engines that an attack may break: those of the other tests are never given to one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from grader.ranks.engines import Engines


class Arena:
    """Warm engines, made anew after an attack that got at them."""

    def __init__(self) -> None:
        self._engines: Engines | None = None

    @property
    def engines(self) -> Engines:
        if self._engines is None:
            self._engines = Engines()
        return self._engines

    def close(self) -> None:
        engines, self._engines = self._engines, None
        if engines is not None:
            engines.close()


@pytest.fixture(scope="session")
def arena() -> Iterator[Arena]:
    found = Arena()
    yield found
    found.close()
