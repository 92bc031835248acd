"""One life of one node, from start to crash: inputs in, effects out. Runs in the box, or here for code of our own.

An input is [kind, ...]: ["start"], ["message", src, text], ["timer", name]. An effect is one of
    ["send", dst, text, line]       ["write", key, text or None, line]
    ["timer", name, after, line]    ["cancel", name, line]
with the learner's line. All of it is JSON: what a node does is told, and carried out by whoever simulates the world.
"""

from __future__ import annotations

import json
import sys
import traceback
import types
from dataclasses import dataclass, field
from typing import Any

from grader.nodes.node import Body, Node, attach

MOST_EFFECTS = 20_000  # of one handler
MOST_TEXT = 2**20  # characters of one message or value
SHORT_TEXT = 300  # characters of a message that is likely to come again and again, as heartbeats do
OURS = __file__.rpartition("/")[0]


class Flood(BaseException):
    """A handler that sends without end; not an Exception, so that a handler does not catch it."""


@dataclass(frozen=True)
class Step:
    """What one handler did. `raised` is None or {"type", "text", "line"}; `state` are the watched attributes."""

    effects: list[list[Any]]
    raised: dict[str, Any] | None = None
    state: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Birth:
    """How a node begins a life: class, name, peers, what is set on it, what its disk holds, and its random seed."""

    kind: str
    name: str
    peers: tuple[str, ...]
    settings: dict[str, Any] = field(default_factory=dict)
    disk: dict[str, str] = field(default_factory=dict)
    seed: str = "0"

    def to_json(self) -> list[Any]:
        return [self.kind, self.name, list(self.peers), self.settings, self.disk, self.seed]

    @classmethod
    def from_json(cls, told: list[Any]) -> Birth:
        kind, name, peers, settings, disk, seed = told
        return cls(kind, name, tuple(peers), settings, disk, seed)


class Life:
    """A node object and its world. `watched` are attributes of it that are told after each step."""

    def __init__(self, make: type[Node], birth: Birth, file: str = "", watched: tuple[str, ...] = ()) -> None:
        self._effects: list[list[Any]] = []
        self._file, self._watched, self._now = file or _file_of(make), watched, 0.0
        self.asked_the_time = False
        self.disk = dict(birth.disk)
        self.seed = birth.seed
        self.node = make()
        attach(self.node, self, birth.name, birth.peers, self.disk, birth.seed)
        self.first_random = self.node.random.getstate()
        for name, value in birth.settings.items():
            setattr(self.node, name, value)

    def step(self, what: list[Any], now: float) -> Step:
        """Give the node one input at `now` of its own clock."""
        self._effects, self._now = [], now
        raised = None
        try:
            if what[0] == "message":
                self.node.on_message(what[1], Body(what[1], json.loads(what[2])))
            elif what[0] == "timer":
                self.node.on_timer(what[1])
            else:
                self.node.on_start()
        except (Exception, Flood) as error:
            raised = self._raised(error)
        state = {name: _plain(getattr(self.node, name, None)) for name in self._watched}
        return Step(self._effects, raised, state)

    def _raised(self, error: BaseException) -> dict[str, Any]:
        lines = [entry.lineno for entry in traceback.extract_tb(error.__traceback__) if entry.filename == self._file]
        return {"type": type(error).__name__, "text": str(error)[:1000], "line": lines[-1] if lines else None}

    # ---- the node's world

    def send(self, dst: str, text: str) -> None:
        self._did("send", dst, text)

    def wrote(self, key: str, text: str | None) -> None:
        self._did("write", key, text)

    def set_timer(self, name: str, after: float) -> None:
        self._did("timer", name, after)

    def cancel_timer(self, name: str) -> None:
        self._did("cancel", name)

    def now(self) -> float:
        self.asked_the_time = True
        return self._now

    def _did(self, *what: Any) -> None:
        if len(self._effects) >= MOST_EFFECTS:
            raise Flood(f"one handler did more than {MOST_EFFECTS:,} things (messages, writes, timers)")
        if what[0] in ("send", "write") and what[2] is not None and len(what[2]) > MOST_TEXT:
            raise Flood(f"a message or a value on disk has more than {MOST_TEXT:,} characters")
        self._effects.append([*what, self._line()])

    def _line(self) -> int | None:
        """The learner's line that is being run, the innermost."""
        frame: types.FrameType | None = sys._getframe(3)
        while frame is not None:
            if frame.f_code.co_filename == self._file:
                return frame.f_lineno
            frame = frame.f_back
        return None


def _file_of(make: type) -> str:
    found = getattr(make.on_message, "__code__", None) if isinstance(make, type) and issubclass(make, Node) else None
    return found.co_filename if found is not None else ""


def _plain(value: Any) -> Any:
    """A value that can be told as it is; the name of its type, in brackets, for any other."""
    if value is None or type(value) in (bool, str, float) or (type(value) is int and value.bit_length() < 1000):
        return value
    return f"<{type(value).__name__}>"
