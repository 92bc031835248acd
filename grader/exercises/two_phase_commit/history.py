"""What clients began, were told and read in a run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from grader.nodes.plan import Plan, Played
from grader.trace.story import Sent

COORDINATOR = "n0"
OUTCOMES = ("committed", "aborted")
PROMPT = 2.0  # seconds
DECIDED = 5.5  # seconds after which all is decided and unlocked: 5, and messages on their way, and slow clocks


@dataclass(frozen=True)
class Txn:
    """A transaction as its client knows it: when it asked, and every answer that came, in order."""

    name: Any
    writes: dict[str, dict[str, Any]]
    sent: float
    number: int  # its msg_id
    told: tuple[Sent, ...]

    @property
    def outcome(self) -> str | None:
        return self.told[0].type if self.told else None

    @property
    def answered(self) -> float | None:
        return self.told[0].arrived if self.told else None

    @property
    def label(self) -> str:
        return json.dumps(self.name)

    def places(self) -> Iterator[tuple[str, str]]:
        for node, entries in self.writes.items():
            for key in entries:
                yield node, key


@dataclass(frozen=True)
class Read:
    """A read; `answer` is None if none came in time."""

    node: str
    key: str
    sent: float
    answer: Sent | None

    @property
    def value(self) -> Any:
        return None if self.answer is None else self.answer.body.get("value")


def transactions(played: Played) -> list[Txn]:
    """All transactions that clients began, in the order of their requests."""
    found = []
    for name, client in played.clients.items():
        for number, asked in enumerate(client.done, 1):
            body = asked.ask.body
            if body["type"] != "begin":
                continue
            told = [
                sent
                for sent in played.sim.answers
                if sent.dst == name
                and (sent.body.get("in_reply_to") == number or same(sent.body.get("txn"), body["txn"]))
            ]
            found.append(Txn(body["txn"], body["writes"], asked.sent, number, tuple(told)))
    return sorted(found, key=lambda txn: txn.sent)


def reads(played: Played) -> list[Read]:
    """All reads, in the order of their requests."""
    found = []
    for name, client in played.clients.items():
        for number, asked in enumerate(client.done, 1):
            if asked.ask.body["type"] == "read":
                of = [s for s in played.sim.answers if s.dst == name and s.body.get("in_reply_to") == number]
                answer = of[0] if of and asked.answer is not None else None
                found.append(Read(asked.ask.node, asked.ask.body["key"], asked.sent, answer))
    return sorted(found, key=lambda read: read.sent)


def same(one: Any, other: Any) -> bool:
    """Whether two values are the same JSON: 1 is not true."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def whole_since(plan: Plan) -> float:
    """From when on nothing befalls nodes and network any more."""
    return max([mishap.until for mishap in plan.mishaps] + [plan.healed or 0.0], default=0.0)
