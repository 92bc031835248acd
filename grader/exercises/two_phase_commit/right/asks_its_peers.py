"""Cooperative termination (Bernstein, Hadzilacos, Goodman 1987, section 7.4): who is in doubt asks everybody, and a
participant that has not voted yet says abort, and writes down that it will vote no."""

from __future__ import annotations

import json
from typing import Any

from grader.nodes import Node

PREPARED, COMMITTED, ABORTED = "prepared", "committed", "aborted"


class Log:
    """What is known of each transaction, on disk under names of its own."""

    def __init__(self, disk: Any) -> None:
        self.disk = disk

    def of(self, txn: Any) -> dict[str, Any] | None:
        found: dict[str, Any] | None = self.disk.get("txn/" + json.dumps(txn))
        return found

    def put(self, txn: Any, entry: dict[str, Any]) -> None:
        self.disk["txn/" + json.dumps(txn)] = entry

    def all(self) -> list[tuple[Any, dict[str, Any]]]:
        return [(json.loads(key[4:]), value) for key, value in self.disk.items() if key.startswith("txn/")]


class Coordinator(Node):
    def on_start(self) -> None:
        self.log = Log(self.disk)
        self.yes: dict[str, list[str]] = {}
        for txn, entry in self.log.all():
            if entry["state"] == PREPARED:
                self.close(txn, ABORTED)
        self.on_timer("tell")

    def on_message(self, src: str, body: dict[str, Any]) -> None:
        txn = body["txn"]
        entry = self.log.of(txn)
        if body["type"] == "begin":
            state = {"state": PREPARED, "client": src, "msg_id": body["msg_id"], "unaware": list(body["writes"])}
            self.log.put(txn, {**state, "all": list(body["writes"])})
            self.yes[json.dumps(txn)] = []
            for name, writes in body["writes"].items():
                self.send(name, {"type": "prepare", "txn": txn, "writes": writes, "all": list(body["writes"])})
            self.set_timer("give up " + json.dumps(txn), 0.9)
        elif entry is None:
            return
        elif body["type"] == "state" and entry["state"] == PREPARED:
            if body["state"] != PREPARED:
                self.close(txn, ABORTED)
                return
            voted = self.yes[json.dumps(txn)]
            voted.extend([src] if src not in voted else [])
            if len(voted) == len(entry["all"]):
                self.close(txn, COMMITTED)
        elif body["type"] == "state" and body["state"] == entry["state"] and src in entry["unaware"]:
            self.log.put(txn, {**entry, "unaware": [name for name in entry["unaware"] if name != src]})
        elif body["type"] == "state?" and entry["state"] != PREPARED:
            self.send(src, {"type": "state", "txn": txn, "state": entry["state"]})

    def close(self, txn: Any, state: str) -> None:
        entry = {**(self.log.of(txn) or {}), "state": state}
        self.log.put(txn, entry)
        for name in entry["all"]:
            self.send(name, {"type": "state", "txn": txn, "state": state})
        self.send(entry["client"], {"type": state, "txn": txn, "in_reply_to": entry["msg_id"]})

    def on_timer(self, name: str) -> None:
        if name != "tell":
            txn = json.loads(name.removeprefix("give up "))
            if (self.log.of(txn) or {}).get("state") == PREPARED:
                self.close(txn, ABORTED)
            return
        for txn, entry in self.log.all():
            if entry["state"] != PREPARED:
                for unaware in entry["unaware"]:
                    self.send(unaware, {"type": "state", "txn": txn, "state": entry["state"]})
        self.set_timer("tell", 0.7)


class Participant(Node):
    def on_start(self) -> None:
        self.log = Log(self.disk)
        self.doubted: list[Any] = []
        self.set_timer("ask", 0.5)

    def on_message(self, src: str, body: dict[str, Any]) -> None:
        if body["type"] == "read":
            stored = self.disk.get("value/" + body["key"])
            self.reply(body, {"type": "read_ok", "value": stored})
            return
        txn = body["txn"]
        entry = self.log.of(txn)
        match body["type"]:
            case "prepare" if entry is None:
                taken = {key for _, other in self.log.all() if other["state"] == PREPARED for key in other["writes"]}
                state = ABORTED if taken & body["writes"].keys() else PREPARED
                self.log.put(txn, {"state": state, "writes": body["writes"], "all": body["all"]})
                self.send(src, {"type": "state", "txn": txn, "state": state})
            case "prepare":
                self.send(src, {"type": "state", "txn": txn, "state": entry["state"]})
            case "state?" if entry is None:
                self.log.put(txn, {"state": ABORTED, "writes": {}, "all": []})  # never a yes from here on
                self.send(src, {"type": "state", "txn": txn, "state": ABORTED})
            case "state?" if entry["state"] != PREPARED:
                self.send(src, {"type": "state", "txn": txn, "state": entry["state"]})
            case "state" if body["state"] != PREPARED:
                if entry is not None and entry["state"] == PREPARED:
                    if body["state"] == COMMITTED:
                        for key, value in entry["writes"].items():
                            self.disk["value/" + key] = value
                    self.log.put(txn, {**entry, "state": body["state"]})
                if src not in self.peers or src == "n0":
                    self.send(src, {"type": "state", "txn": txn, "state": body["state"]})

    def on_timer(self, name: str) -> None:
        open_ones = [(txn, entry) for txn, entry in self.log.all() if entry["state"] == PREPARED]
        for txn, entry in open_ones:
            for other in ("n0", *entry["all"]):
                if other != self.id and txn in self.doubted:  # others may not even have been asked yet
                    self.send(other, {"type": "state?", "txn": txn})
        self.doubted = [txn for txn, _ in open_ones]
        self.set_timer("ask", 1.1)
