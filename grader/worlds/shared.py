"""The usual opened world: one bench for all checks, which judge one after another."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from grader.lost import Unable
from grader.sandbox import LINUX
from grader.verdict import Diagnosis

T = TypeVar("T")


@dataclass(frozen=True)
class OneBench:
    """`one` is the bench; `end` ends what it has begun, and `printed` tells what the submission printed."""

    one: Any
    engines: tuple[str, ...]
    end: Callable[[], None] = lambda: None
    printed: Callable[[], str] = lambda: ""

    def prepare(self) -> Diagnosis | None:
        return None

    def bench(self, check: str) -> Any:
        if not LINUX:
            raise Unable("Not run, because workers are real processes here, and rankup starts those on Linux only.")
        return self.one

    def together(self, works: Sequence[Callable[[], T]]) -> Iterator[T]:
        return (work() for work in works)

    def output(self, picture: Any) -> str:
        return self.printed()

    def close(self) -> None:
        self.end()
