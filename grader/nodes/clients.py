"""Clients of simulated nodes: each asks one thing after another, waits for answers, and records a history."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from grader.nodes.sim import Simulation
from grader.trace.story import Sent

WAIT_SECONDS = 5.0
DEFINITE = (1, 10, 11, 12, 14, 20, 21, 22, 30)  # errors that promise that nothing happened; a code may be a list, too


@dataclass(frozen=True)
class Ask:
    """One request, `after` so many seconds since the one before it was answered (or given up), and not before `at`."""

    node: str
    body: dict[str, Any]
    after: float = 0.0
    at: float = 0.0


@dataclass
class Asked:
    """A request and what came of it: `answer` is the body of the first answer, None if none came in time. `request` and
    `reply` are the two as messages."""

    client: str
    ask: Ask
    sent: float
    answer: dict[str, Any] | None = None
    answered: float | None = None
    request: Sent | None = None
    reply: Sent | None = None

    @property
    def seconds(self) -> float | None:
        return None if self.answered is None else self.answered - self.sent


class Client:
    """Asks what `asks` yields, in order. `done` are its requests; the history gets an event for each begin and end."""

    def __init__(
        self, sim: Simulation, name: str, asks: Iterable[Ask], begin: float = 0.0, wait: float = WAIT_SECONDS,
        hear: Callable[[Sent], None] | None = None,
    ) -> None:  # fmt: skip
        self.sim, self.name, self.wait = sim, name, wait
        self.done: list[Asked] = []
        self._asks: Iterator[Ask] = iter(asks)
        self._msg_id = self._lives = 0
        self._open: Asked | None = None
        self._hear = hear
        sim.client(name, self._arrived)
        sim.at(begin, self._next)

    def _next(self) -> None:
        ask = next(self._asks, None)
        if ask is not None:
            self.sim.at(max(self.sim.time + ask.after, ask.at), lambda: self._ask(ask))

    @property
    def waits(self) -> bool:
        """Whether a request of its is open."""
        return self._open is not None

    def ask(self, ask: Ask) -> Asked:
        """Ask something else now, where nothing is open and no other request is left."""
        self._ask(ask)
        return self.done[-1]

    def _ask(self, ask: Ask) -> None:
        self._msg_id += 1
        asked = self._open = Asked(self.name, ask, self.sim.time)
        self.done.append(asked)
        self._record("invoke", ask.body)
        asked.request = self.sim.request(self.name, ask.node, {**ask.body, "msg_id": self._msg_id})
        number = self._msg_id
        self.sim.at(self.sim.time + self.wait, lambda: self._given_up(number))

    def _arrived(self, message: Sent) -> None:
        body = message.body
        if self._open is None or body.get("in_reply_to") != self._msg_id:
            if self._hear is not None:
                self._hear(message)
            return
        asked, self._open = self._open, None
        asked.answer, asked.answered, asked.reply = body, self.sim.time, message
        kind, more = _outcome(asked.ask.body, body)
        self._record(kind, asked.ask.body, **more)
        if kind == "info":
            self._lives += 1
        self._next()

    def _given_up(self, number: int) -> None:
        if self._open is not None and self._msg_id == number:
            asked, self._open = self._open, None
            self._record("info", asked.ask.body)
            self._lives += 1
            self._next()

    def _record(self, kind: str, body: dict[str, Any], **more: Any) -> None:
        f = body.get("type")
        if f not in ("read", "write", "cas"):
            return
        process = self.name if not self._lives else f"{self.name}.{self._lives}"
        value = {"read": None, "write": body.get("value"), "cas": [body.get("from"), body.get("to")]}[f]
        event = {
            "process": process,
            "type": kind,
            "f": f,
            "key": body.get("key"),
            "value": value,
            "time": self.sim.time,
        }
        self.sim.story.history.append({**event, **more})


def _outcome(request: dict[str, Any], answer: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """How an operation ended, as a history says it, and what more is known."""
    kind = answer.get("type")
    if kind == "error":
        code = answer.get("code")
        if request.get("type") == "read" and code == 20:  # there is no such key
            return "ok", {"value": None}
        return ("fail" if code in DEFINITE else "info"), {"error": code}
    if kind == f"{request.get('type')}_ok":
        return "ok", ({"value": answer.get("value")} if kind == "read_ok" else {})
    return "info", {}
