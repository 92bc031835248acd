"""Several worlds in one exercise: each check is judged in one of them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from grader.exercise import Grading, Opened, World
from grader.verdict import Diagnosis

T = TypeVar("T")


@dataclass(frozen=True)
class Several:
    """`first` judges every check that `others` does not name. Those worlds are opened when one of their checks is
    judged, so that a submission that cannot be loaded starts no Ray."""

    first: World
    others: Mapping[str, World]  # by the name of a check

    @property
    def names(self) -> tuple[str, ...]:
        worlds = (self.first, *self.others.values())
        return tuple(dict.fromkeys(name for world in worlds for name in world.names))

    def open(self, grading: Grading) -> AllOpened:
        return AllOpened(self, grading)


class AllOpened:
    """The worlds of one grading, as far as checks have asked for them."""

    def __init__(self, worlds: Several, grading: Grading) -> None:
        self._worlds, self._grading = worlds, grading
        self._opened: dict[int, Opened] = {}  # by the world's place
        self._all = [worlds.first, *worlds.others.values()]
        self._judged = self._in(0)

    @property
    def engines(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for world in self._opened.values() for name in world.engines))

    def prepare(self) -> Diagnosis | None:
        found = self._in(0).prepare()
        return found if found is None or found.kind != "missing_function" else None  # the others' may be there

    def bench(self, check: str) -> Any:
        place = 1 + list(self._worlds.others).index(check) if check in self._worlds.others else 0
        self._judged = self._in(place)
        return self._judged.bench(check)

    def together(self, works: Sequence[Callable[[], T]]) -> Iterator[T]:
        return (work() for work in works)

    def output(self, picture: Any) -> str:
        """What was printed in the world that judged last, since checks are judged one after another."""
        return self._judged.output(picture)

    def close(self) -> None:
        with contextlib.ExitStack() as stack:
            for world in self._opened.values():
                stack.callback(world.close)

    def _in(self, place: int) -> Opened:
        if place not in self._opened:
            self._opened[place] = self._all[place].open(self._grading)
        return self._opened[place]
