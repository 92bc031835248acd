"""The client is answered when all have applied the outcome or 1 s has passed; one participant alone decides itself."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from grader.nodes import Node


class Entry(NamedTuple):
    client: str
    msg_id: int
    writes: dict[str, dict[str, Any]]
    outcome: str | None
    unconfirmed: list[str]
    answered: bool


class Coordinator(Node):
    def on_start(self) -> None:
        self.yes: set[tuple[str, str]] = set()
        for key in list(self.disk):
            if self.entry(key).outcome is None and len(self.entry(key).writes) > 1:
                self.change(key, outcome="aborted")
        self.set_timer("tick", 0.0)

    def entry(self, key: str) -> Entry:
        return Entry(*self.disk[key])

    def change(self, key: str, **fields: Any) -> Entry:
        changed = self.entry(key)._replace(**fields)
        self.disk[key] = list(changed)
        return changed

    def on_message(self, src: str, body: dict[str, Any]) -> None:
        key = json.dumps(body["txn"])
        if body["type"] == "begin":
            self.disk[key] = list(Entry(src, body["msg_id"], body["writes"], None, list(body["writes"]), False))
            self.ask(key)
            self.set_timer(key, 1.0)
            return
        entry = self.entry(key)
        if body["type"] == "vote" and entry.outcome is None:
            self.yes |= {(key, src)} if body["vote"] else set()
            if not body["vote"]:
                self.change(key, outcome="aborted")
                self.tell(key)
            elif all((key, name) in self.yes for name in entry.writes):
                self.change(key, outcome="committed")
                self.tell(key)
        elif body["type"] == "applied":
            outcome = entry.outcome or body["outcome"]
            entry = self.change(key, outcome=outcome, unconfirmed=[n for n in entry.unconfirmed if n != src])
            if not entry.unconfirmed:
                self.answer(key)

    def ask(self, key: str) -> None:
        entry = self.entry(key)
        alone = len(entry.writes) == 1
        for name, writes in entry.writes.items():
            kind = "do" if alone else "prepare"
            self.send(name, {"type": kind, "txn": json.loads(key), "writes": writes})

    def tell(self, key: str) -> None:
        entry = self.entry(key)
        for name in entry.unconfirmed:
            self.send(name, {"type": "apply", "txn": json.loads(key), "outcome": entry.outcome})

    def answer(self, key: str) -> None:
        entry = self.entry(key)
        if not entry.answered:
            self.change(key, answered=True)
            self.send(entry.client, {"type": entry.outcome, "txn": json.loads(key), "in_reply_to": entry.msg_id})

    def on_timer(self, name: str) -> None:
        if name == "tick":
            for key in list(self.disk):
                if self.entry(key).outcome is not None:
                    self.tell(key)
                elif len(self.entry(key).writes) == 1:
                    self.ask(key)
            self.set_timer("tick", 0.5)
            return
        entry = self.entry(name)
        if entry.outcome is None and len(entry.writes) > 1:
            entry = self.change(name, outcome="aborted")
            self.tell(name)
        if entry.outcome is not None:
            self.answer(name)
        else:
            self.set_timer(name, 1.0)


class Participant(Node):
    def on_start(self) -> None:
        saved = self.disk.get("all", [{}, {}, {}])
        self.values, self.promised, self.over = saved

    def save(self) -> None:
        self.disk["all"] = [self.values, self.promised, self.over]

    def on_message(self, src: str, body: dict[str, Any]) -> None:
        if body["type"] == "read":
            self.reply(body, {"type": "read_ok", "value": self.values.get(body["key"])})
            return
        key = json.dumps(body["txn"])
        if body["type"] == "prepare":
            if key not in self.over and key not in self.promised:
                if not self.free(body["writes"]):
                    self.over[key] = "aborted"
                else:
                    self.promised[key] = body["writes"]
                self.save()
            self.send(src, {"type": "vote", "txn": body["txn"], "vote": self.over.get(key) != "aborted"})
            return
        if key not in self.over:
            if body["type"] == "do":
                outcome = "committed" if self.free(body["writes"]) else "aborted"
                writes = body["writes"]
            else:
                outcome, writes = body["outcome"], self.promised.pop(key, {})
            if outcome == "committed":
                self.values.update(writes)
            self.over[key] = outcome
            self.save()
        self.send(src, {"type": "applied", "txn": body["txn"], "outcome": self.over[key]})

    def free(self, writes: dict[str, Any]) -> bool:
        return all(writes.keys().isdisjoint(other) for other in self.promised.values())
