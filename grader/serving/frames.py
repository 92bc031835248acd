"""What an engine's record is read into: requests as they go on, steps with their chunks, slots, and findings."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from grader.serving.run import Event


@dataclass
class Live:
    """A request that was submitted. `keys[p]` stands for its tokens 0 .. p."""

    number: int
    name: Any
    prompt: tuple[int, ...]
    most: int
    known: list[int] = field(default_factory=list)  # the prompt, and what was returned
    keys: list[int] = field(default_factory=list)
    cached: int = 0  # positions that are in the cache
    table: tuple[int, ...] = ()  # the blocks of these
    own: int = 0  # the first position that it computed itself, since its last start
    begun: int = 0  # the step of its first chunk; 0: none yet
    absent: bool = False  # left out for want of blocks: preempted, as far as can be seen
    starts: int = 0
    ended: str = ""  # "eos", "length", "cancelled"

    def learn(self, tokens: Iterable[int]) -> None:
        for token in tokens:
            self.known.append(token)
            self.keys.append(hash((self.keys[-1] if self.keys else 0, token)))

    @property
    def returned(self) -> int:
        return len(self.known) - len(self.prompt)

    @property
    def decoding(self) -> bool:
        return self.returned > 0 and self.cached == len(self.known) - 1

    @property
    def label(self) -> str:
        return f"request {self.name!r}"

    @property
    def title(self) -> str:
        return f"Request {self.name!r}"


@dataclass(frozen=True)
class Before:
    """A request as it was before a forward."""

    cached: int
    known: int
    table: tuple[int, ...]
    decoding: bool
    begun: bool
    absent: bool
    own: int


@dataclass(frozen=True)
class Part:
    """One chunk of a forward."""

    request: int
    start: int
    count: int
    table: tuple[int, ...]
    decodes: bool
    again: bool = False  # positions that it had computed before
    first: bool = False  # its first chunk, or that after a preemption

    @property
    def end(self) -> int:
        return self.start + self.count


@dataclass
class Frame:
    """One step: its number from 1, ticks, chunks, what it returned, and who was unfinished, in order of submission."""

    step: int
    begin: int
    end: int
    events: list[Event]
    parts: list[Part] = field(default_factory=list)
    returned: dict[int, list[int]] = field(default_factory=dict)
    before: dict[int, Before] = field(default_factory=dict)
    held: dict[int, tuple[int, ...]] = field(default_factory=dict)  # blocks, by request

    @property
    def tokens(self) -> int:
        return sum(part.count for part in self.parts)

    def of(self, request: int) -> Part | None:
        return next((part for part in self.parts if part.request == request), None)


@dataclass(frozen=True)
class Written:
    """What a slot holds."""

    key: int
    request: int
    position: int
    step: int


@dataclass(frozen=True)
class Finding:
    """Something that is wrong: by which rule, and in words. After a fatal one nothing more can be said of the run."""

    rule: str
    text: str
    step: int
    request: int = -1
    expected: str = ""
    got: str = ""
    fatal: bool = False
