"""Nodes: classes of message-passing nodes that the learner writes, simulated and explored."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from grader.exercise import Grading, Opened
from grader.nodes.bench import NodeBench
from grader.verdict import Diagnosis
from grader.worlds.ranks import Outcome, RankBench, Ranks

T = TypeVar("T")


@dataclass(frozen=True)
class Nodes:
    """Classes of nodes; `watched` are the attributes of theirs that checks look at."""

    names: tuple[str, ...]
    watched: tuple[str, ...] = ()

    def open(self, grading: Grading) -> _Clusters:
        return _Clusters(self, grading)


class _Clusters:
    """Checks have worlds of their own in the same boxes, and are worked on side by side."""

    engines: tuple[str, ...] = ("sim",)

    def __init__(self, world: Nodes, grading: Grading) -> None:
        machine, submission = grading.machine, grading.submission
        self._bench = NodeBench(machine.warm, submission, world.names, world.watched, grading.seed, grading.schedules)
        self._bench.replayed = grading.replayed

    def prepare(self) -> Diagnosis | None:
        return self._bench.hopeless()

    def bench(self, check: str) -> NodeBench:
        return self._bench.of(check)

    def together(self, works: Sequence[Callable[[], T]]) -> Iterator[T]:
        """The first before the others begin, for somebody waits for its line; then the others side by side."""
        yield from self._bench.together(works[:1])
        yield from self._bench.together(works[1:])

    def output(self, picture: Any) -> str:
        return self._bench.output()

    def close(self) -> None:
        self._bench.close()


@dataclass(frozen=True)
class NodesAndCalls:
    """Nodes, and beside them functions or classes that are called as on ranks."""

    nodes: Nodes
    calls: Ranks

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.calls.names, *self.nodes.names)

    def open(self, grading: Grading) -> _Both:
        return _Both(self.nodes.open(grading), self.calls.open(grading))


@dataclass(frozen=True)
class BothBench:
    """What checks judge by: the calls, and the nodes."""

    calls: RankBench
    nodes: NodeBench


def of_calls(judge: Callable[[RankBench], Any]) -> Callable[[BothBench], Any]:
    """The judge of a check that is about what is called."""
    return lambda bench: judge(bench.calls)


def of_nodes(judge: Callable[[NodeBench], Any]) -> Callable[[BothBench], Any]:
    """The judge of a check that is about nodes."""
    return lambda bench: judge(bench.nodes)


@dataclass(frozen=True)
class _Both:
    clusters: _Clusters
    ranks: RankBench

    @property
    def engines(self) -> tuple[str, ...]:
        used = {*self.ranks.engines, *self.clusters.engines}
        return tuple(name for name in ("sim", "gloo", "nccl") if name in used)

    def prepare(self) -> Diagnosis | None:
        if not self.ranks.engines:
            return self.clusters.prepare()
        found = self.ranks.prepare()
        # where what is called is missing, the nodes beside it may be right
        return found if found and found.kind == "syntax_error" else None

    def bench(self, check: str) -> BothBench:
        return BothBench(self.ranks, self.clusters.bench(check))

    def together(self, works: Sequence[Callable[[], T]]) -> Iterator[T]:
        return self.clusters.together(works)

    def output(self, picture: Any) -> str:
        part: Opened = self.ranks if isinstance(picture, Outcome) else self.clusters
        return part.output(picture)

    def close(self) -> None:
        with contextlib.closing(self.clusters):
            self.ranks.close()
