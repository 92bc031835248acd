"""A job as its logs tell it: which attempt counts for each step, and the picture of its nodes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from grader.says import listed
from grader.trace.gantt import Bar, Chart
from grader.worlds.cases import Case
from grader.worlds.ranks import Outcome

Line = list[Any]  # step, rows, world, attempt; empty where a line of the log is none
Told = dict[str, Any]
NO_FINAL = "no final.pt"  # what the harness says of the file


@dataclass(frozen=True)
class Done:
    """A step as its last attempt logged it: per rank its rows, and the worlds that its lines name."""

    step: int
    attempt: int
    parts: dict[int, list[int]]
    worlds: tuple[int, ...]
    twice: int | None = None  # a rank that logged it twice in that attempt
    older: tuple[tuple[int, int], ...] = ()  # ranks that logged it in no such attempt, and in which last

    @property
    def left_out(self) -> str:
        """Which lines do not count, in a sentence with a space before it; "" for none."""
        if not self.older:
            return ""
        ranks = listed(f"rank {rank} with attempt {attempt}" for rank, attempt in self.older)
        return f" It was logged by {ranks}, too, but only attempt {self.attempt} counts, which is the greatest."

    @property
    def rows(self) -> list[int]:
        return [row for part in self.parts.values() for row in part]


@dataclass(frozen=True)
class Event:
    """A node's loss or arrival: which node, at which file operation of which rank, and the logs as they were then. Of a
    loss in a start of the workers, before a line of it, `broken` says which file had suffered."""

    what: str
    node: int
    rank: int
    call: str
    logs: list[list[Line]]
    broken: str = ""

    @property
    def reached(self) -> int:
        """The last step that this rank had logged, or -1."""
        own = self.logs[self.rank] if self.rank < len(self.logs) else []
        return max((line[0] for line in own if line), default=-1)

    @property
    def attempt(self) -> int:
        """The greatest attempt that was logged."""
        return max((line[3] for lines in self.logs for line in lines if line), default=-1)

    def __str__(self) -> str:
        if self.what == "join":
            return f"node {self.node} joined after step {self.reached}"
        if self.broken:
            return (
                f"node {self.node} was killed in the next start of the workers before {self.call}, when {self.broken}"
            )
        return f"node {self.node} was killed before {self.call}, when rank {self.rank} had logged step {self.reached}"


@dataclass(frozen=True)
class Job:
    """One of them, and how it went."""

    outcome: Outcome
    told: Told

    @property
    def case(self) -> Case:
        return self.outcome.case

    @property
    def label(self) -> str:
        return self.case.label

    @property
    def began(self) -> int:
        """How many nodes began it."""
        return int(self.case.arguments[0][4])

    @property
    def planned(self) -> tuple[str, ...]:
        """What was to happen to its nodes."""
        loss, join = self.case.arguments[0][5:7]
        return ("loss",) * bool(loss) + ("join",) * int(join >= 0)

    def __str__(self) -> str:
        if self.events:
            return f"With {self.label} ({'; '.join(map(str, self.events))})"
        return f"With {self.label}, before that happened" if self.planned else f"With {self.label}"

    @property
    def reached(self) -> str:
        """How far its ranks came, in words."""
        last = [max((line[0] for line in lines if line), default=None) for lines in self.logs]
        told = [f"step {step} on rank {rank}" for rank, step in enumerate(last) if step is not None]
        return f"The last lines are of {listed(told)}." if told else "No rank had logged a step."

    @property
    def logs(self) -> list[list[Line]]:
        return self.told["logs"]  # type: ignore[no-any-return]

    @cached_property
    def events(self) -> tuple[Event, ...]:
        return tuple(Event(**event) for event in self.told["events"])

    @property
    def cut(self) -> str:
        """The file, other than a log, that a node had not written to its end when it was killed; "" for none."""
        calls = [event.call.partition(" ") for event in self.events if event.what == "loss"]
        return next((name for call, _, name in calls if call == "write" and not name.startswith("steps-")), "")

    @property
    def broken(self) -> str:
        """What a node had done to a file when it was killed in a start of the workers; "" for nothing."""
        return next((event.broken for event in self.events if event.broken), "")

    @property
    def finished(self) -> bool:
        """Whether it came to its end, with parameters."""
        return bool(self.told["ending"] == "finished" and self.told["final"] != NO_FINAL)

    @property
    def happened(self) -> bool:
        """Whether all that was to happen to its nodes did, and it came to its end."""
        return self.finished and len(self.events) >= len(self.planned)

    @cached_property
    def done(self) -> dict[int, Done]:
        """What counts, by step."""
        found: dict[int, list[tuple[int, Line]]] = {}
        for rank, lines in enumerate(self.logs):
            for line in lines:
                if line:
                    found.setdefault(line[0], []).append((rank, line))
        return {step: _last(step, found[step]) for step in sorted(found)}

    @cached_property
    def stretches(self) -> list[list[dict[int, list[int]]]]:
        """The logs before, between and after the events: per rank and step, the attempts of its lines."""
        found, begun = [], [0] * len(self.logs)
        for logs in [*(event.logs for event in self.events), self.logs]:
            stretch: list[dict[int, list[int]]] = []
            for lines, first in zip(logs, begun, strict=True):
                stretch.append({})
                for line in (line for line in lines[first:] if line):
                    stretch[-1].setdefault(line[0], []).append(line[3])
            found.append(stretch)
            begun = [len(lines) for lines in logs]
        return found

    def after(self, number: int) -> list[tuple[int, Line]]:
        """Ranks and lines of the attempts that began after an event, and before the next, in order of steps."""
        event, later, end = self.events[number], self.events[number + 1 :], self.told.get("end")
        last = later[0].attempt if later else end["attempt"] if end else None
        found = [
            (rank, line)
            for rank, lines in enumerate(self.logs)
            for line in lines
            if line and line[3] > event.attempt and (last is None or line[3] <= last)
        ]
        return sorted(found, key=lambda each: (each[1][3], each[1][0], each[0]))


def _last(step: int, found: list[tuple[int, Line]]) -> Done:
    attempt = max(line[3] for _, line in found)
    parts: dict[int, list[int]] = {}
    twice = None
    worlds = []
    for rank, line in found:
        if line[3] == attempt:
            twice = rank if rank in parts else twice
            parts[rank] = [*parts.get(rank, []), *line[1]]
            worlds.append(line[2])
    older = {rank: line[3] for rank, line in sorted(found, key=lambda each: each[1][3]) if rank not in parts}
    return Done(step, attempt, parts, tuple(worlds), twice, tuple(sorted(older.items())))


def chart(job: Job, title: str = "") -> Chart:
    """The nodes as lanes; from left to right the steps in the order in which they were done, each attempt a bar."""
    found = Chart((), title=title, unit=" steps done", cross="the node is killed", outcome=job.outcome, lines=False)
    found.words |= {"done": "steps, and the size of the world", "again": "a step that is done again", "died": "lost"}
    events = list(job.events)
    nodes, coming = list(range(job.began)), job.began
    at = 0.0
    reached = -1
    for attempt in sorted({line[3] for lines in job.logs for line in lines if line}):
        while events and events[0].attempt < attempt:
            event = events.pop(0)
            if event.what == "loss":
                found.gone[f"node {event.node}"] = at
                nodes = [node for node in nodes if node != event.node]
            else:
                found.came[f"node {coming}"] = at
                nodes, coming = [*nodes, coming], coming + 1
        steps = {rank: sorted(_steps(lines, attempt)) for rank, lines in enumerate(job.logs)}
        length = 0
        for node, own in zip(nodes, [own for own in steps.values() if own], strict=False):
            length = max(length, len(own))
            again = [step for step in own if step <= reached]
            lane = f"node {node}"
            if again:
                found.bars.append(Bar(lane, at, at + len(again), _words(again), "again"))
            new = [step for step in own if step > reached]
            if new:
                world = sum(bool(each) for each in steps.values())
                words = f"world {world}: {_words(new)}"
                found.bars.append(Bar(lane, at + len(again), at + len(own), words))
        reached = max([reached, *(step for own in steps.values() for step in own)])
        at += length
    for event in events:
        if event.what == "loss":
            found.gone[f"node {event.node}"] = at
    found.lanes = tuple(f"node {node}" for node in range(max(coming, job.began)))
    found.end = max(at, 1.0)
    found.subtitle = f"{job.label}: {'; '.join(map(str, job.events))}" if job.events else job.label
    return found


def _steps(lines: list[Line], attempt: int) -> Iterator[int]:
    return (line[0] for line in lines if line and line[3] == attempt)


def _words(steps: list[int]) -> str:
    return f"{steps[0]}" if steps[0] == steps[-1] else f"{steps[0]}-{steps[-1]}"
