"""Presumed abort (Mohan, Lindsay, Obermarck 1986): only commits are logged, and what is not in the log was aborted."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from grader.nodes import Node


@dataclass
class Voting:
    client: str
    msg_id: int
    waiting: set[str]
    members: list[str] = field(default_factory=list)


class Coordinator(Node):
    def on_start(self) -> None:
        self.voting: dict[str, Voting] = {}
        self.set_timer("tell", 0.0)

    def on_message(self, src: str, body: dict[str, Any]) -> None:
        handle = getattr(self, f"hear_{body['type']}")
        handle(src, body, json.dumps(body["txn"]))

    def hear_begin(self, src: str, body: dict[str, Any], key: str) -> None:
        members = sorted(body["writes"])
        self.voting[key] = Voting(src, body["msg_id"], set(members), members)
        for member in members:
            self.send(member, {"type": "vote?", "txn": body["txn"], "entries": body["writes"][member]})
        self.set_timer(f"vote {key}", 1.5)

    def hear_yes(self, src: str, body: dict[str, Any], key: str) -> None:
        voting = self.voting.get(key)
        if voting is None:
            self.hear_unsure(src, body, key)
            return
        voting.waiting.discard(src)
        if not voting.waiting:
            self.disk[key] = {"owes": voting.members}
            self.close(key, "committed")
            self.on_timer("tell")

    def hear_no(self, src: str, body: dict[str, Any], key: str) -> None:
        voting = self.voting.get(key)
        if voting is not None:
            self.abort(key)

    def hear_unsure(self, src: str, body: dict[str, Any], key: str) -> None:
        if key not in self.voting:
            self.send(src, {"type": "commit" if key in self.disk else "abort", "txn": body["txn"]})

    def hear_ack(self, src: str, body: dict[str, Any], key: str) -> None:
        if key in self.disk:
            owes = [member for member in self.disk[key]["owes"] if member != src]
            if owes:
                self.disk[key] = {"owes": owes}
            else:
                del self.disk[key]

    def abort(self, key: str) -> None:
        for member in self.voting[key].members:
            self.send(member, {"type": "abort", "txn": json.loads(key)})
        self.close(key, "aborted")

    def close(self, key: str, outcome: str) -> None:
        voting = self.voting.pop(key)
        self.cancel_timer(f"vote {key}")
        self.send(voting.client, {"type": outcome, "txn": json.loads(key), "in_reply_to": voting.msg_id})

    def on_timer(self, name: str) -> None:
        if name != "tell":
            self.abort(name.removeprefix("vote "))
            return
        for key, entry in self.disk.items():
            for member in entry["owes"]:
                self.send(member, {"type": "commit", "txn": json.loads(key)})
        self.set_timer("tell", 0.8)


class Participant(Node):
    """The log is one list of lines, which is read again from the start after a crash."""

    def on_start(self) -> None:
        self.log: list[list[Any]] = self.disk.get("log", [])
        self.open: dict[str, tuple[str, dict[str, Any]]] = {}
        self.over: set[str] = set()
        self.table: dict[str, Any] = {}
        for line in self.log:
            self.play(line)
        self.set_timer("ask", 0.1)

    def play(self, line: list[Any]) -> None:
        what, key, *rest = line
        if what == "yes":
            self.open[key] = (rest[0], rest[1])
        else:
            _, entries = self.open.pop(key)
            self.over.add(key)
            if what == "commit":
                self.table.update(entries)

    def write(self, *line: Any) -> None:
        self.log.append(list(line))
        self.disk["log"] = self.log
        self.play(list(line))

    def on_message(self, src: str, body: dict[str, Any]) -> None:
        if body["type"] == "read":
            self.reply(body, {"type": "read_ok", "value": self.table.get(body["key"])})
            return
        txn, key = body["txn"], json.dumps(body["txn"])
        match body["type"]:
            case "vote?":
                if key in self.open or key in self.over:
                    return
                if any(entries.keys() & body["entries"].keys() for _, entries in self.open.values()):
                    self.send(src, {"type": "no", "txn": txn})
                    return
                self.write("yes", key, src, body["entries"])
                self.send(src, {"type": "yes", "txn": txn})
            case "commit" | "abort" as what:
                if key in self.open:
                    self.write(what, key)
                if what == "commit":
                    self.send(src, {"type": "ack", "txn": txn})

    def on_timer(self, name: str) -> None:
        for key, (coordinator, _) in self.open.items():
            self.send(coordinator, {"type": "unsure", "txn": json.loads(key)})
        self.set_timer("ask", 1.0)
