"""What happened to a cluster of message-passing nodes: one event model for the simulator, the explorer and processes.

Times are virtual seconds, or steps of a schedule where `unit` is "step". Plain data; drawn by `storyboard`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Literal

Fate = Literal["delivered", "dropped", "cut", "lost", "in flight"]
What = Literal[
    "start", "restart", "crash", "pause", "resume", "timer", "set_timer", "write", "raised", "state", "note", "answer"
]


@dataclass
class Sent:
    """One message. `line` is the learner's that sent it. `fate`: delivered, dropped by chance, cut off by a partition,
    lost because the receiver was down, or still in flight. `arrived` is None unless it was delivered or lost."""

    number: int
    src: str
    dst: str
    body: dict[str, Any]
    sent: float
    line: int | None = None
    arrived: float | None = None
    fate: Fate = "in flight"
    copy: bool = False  # a duplicate that the network made
    order: int = 0  # among what one node did in one moment
    # of the body, where it is known; if it has escapes, it must be as json.dumps writes them
    text: str = field(default="", init=False, repr=False, compare=False)

    @property
    def type(self) -> str:
        return str(self.body.get("type", "?"))

    def holds(self, value: str) -> bool:
        """Whether the text of the message holds this, in whatever field."""
        if not self.text:
            self.text = json.dumps(self.body)
        return value in self.text


@dataclass(frozen=True)
class Happened:
    """Something at one node: `text` says it in words ("election", a disk key and value, a role that changed)."""

    what: What
    node: str
    at: float
    text: str = ""
    line: int | None = None
    order: int = 0  # among what one node did in one moment


@dataclass(frozen=True)
class Fault:
    """A fault: from `since` to `until` (infinite: it never ended; equal: at one moment). `groups` are the parts of a
    partition, or one group of the nodes it is about; `pairs` are the directed links that are cut, where that is not
    between all groups; `text` is its name where `what` does not say it all."""

    what: Literal["partition", "one-way", "down", "pause", "slow", "loss", "duplicates"]
    since: float
    until: float
    groups: tuple[tuple[str, ...], ...] = ()
    text: str = ""
    pairs: tuple[tuple[str, str], ...] = ()

    @property
    def label(self) -> str:
        return self.text or self.what

    @property
    def nodes(self) -> tuple[str, ...]:
        return tuple(node for group in self.groups for node in group)


@dataclass
class Story:
    """All of it. `lanes` are nodes and clients from top to bottom; `marked` are the numbers of messages, `blamed` the
    indices in `events`, that are drawn in red; `words` are the steps of a minimised schedule, in order, in words."""

    lanes: tuple[str, ...]
    unit: Literal["s", "step"] = "s"
    sent: list[Sent] = field(default_factory=list)
    events: list[Happened] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    history: list[dict[str, Any]] = field(default_factory=list)  # Jepsen's events, see nodes/histories
    end: float = 0.0
    marked: set[int] = field(default_factory=set)
    blamed: set[int] = field(default_factory=set)
    words: list[str] = field(default_factory=list)
    undrawn: frozenset[str] = frozenset()  # nodes without a lane, of very many; their messages among them neither
    title: str = ""
    subtitle: str = ""
