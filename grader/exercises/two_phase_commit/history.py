"""What clients began, were told and read in a run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from grader.nodes.clients import Asked
from grader.nodes.plan import Played
from grader.nodes.runs import Run, same
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


class History(Run):
    """A run, and what its clients began and read, in the order of their requests."""

    def __init__(self, played: Played) -> None:
        super().__init__(played)
        self.txns = [self._txn(one) for one in self.asked if one.ask.body["type"] == "begin"]
        self.reads = [
            Read(one.ask.node, one.ask.body["key"], one.sent, one.reply)
            for one in self.asked if one.ask.body["type"] == "read"
        ]  # fmt: skip

    def _txn(self, asked: Asked) -> Txn:
        assert asked.request is not None
        body, number = asked.ask.body, asked.request.body["msg_id"]

        def about(sent: Sent) -> bool:
            return bool(sent.body.get("in_reply_to") == number or same(sent.body.get("txn"), body["txn"]))

        return Txn(body["txn"], body["writes"], asked.sent, number, tuple(self.replies(asked.client, about)))
