"""Linear: the question goes from participant to participant with the list of who comes next; the last one's yes comes
back to the coordinator, which decides. After a restart the coordinator asks again instead of aborting."""

from __future__ import annotations

import json
from typing import Any

from grader.nodes import Node

EVERY = 0.6


class Coordinator(Node):
    def on_start(self) -> None:
        self.set_timer("again", 0.0)

    def on_message(self, src: str, body: dict[str, Any]) -> None:
        kind = body["type"]
        if kind == "begin":
            key = "t" + json.dumps(body["txn"])
            whose = {"client": src, "msg_id": body["msg_id"]}
            self.disk[key] = {**whose, "writes": body["writes"], "state": "asking", "left": sorted(body["writes"])}
            self.ask(key)
            return
        key = "t" + json.dumps(body["txn"])
        entry = self.disk[key]
        if kind in ("all-yes", "no") and entry["state"] == "asking":
            entry["state"] = "committed" if kind == "all-yes" else "aborted"
            self.disk[key] = entry
            self.send(entry["client"], {"type": entry["state"], "txn": body["txn"], "in_reply_to": entry["msg_id"]})
            self.tell(key)
        elif kind == "heard" and src in entry["left"]:
            entry["left"] = [name for name in entry["left"] if name != src]
            self.disk[key] = entry

    def ask(self, key: str) -> None:
        entry = self.disk[key]
        first, *rest = sorted(entry["writes"])
        self.send(first, {"type": "prepare", "txn": json.loads(key[1:]), "writes": entry["writes"], "next": rest})

    def tell(self, key: str) -> None:
        entry = self.disk[key]
        for name in entry["left"]:
            self.send(name, {"type": entry["state"], "txn": json.loads(key[1:])})

    def on_timer(self, name: str) -> None:
        for key in self.disk:
            if self.disk[key]["state"] == "asking":
                self.ask(key)
            else:
                self.tell(key)
        self.set_timer("again", EVERY)


class Participant(Node):
    def on_start(self) -> None:
        if "state" not in self.disk:
            self.disk["state"] = {"values": {}, "promised": {}, "over": []}
        self.state = self.disk["state"]

    def save(self) -> None:
        """Values, promises and what is over change at one moment: there is nothing in between to crash in."""
        self.disk["state"] = self.state

    def on_message(self, src: str, body: dict[str, Any]) -> None:
        if body["type"] == "read":
            self.reply(body, {"type": "read_ok", "value": self.state["values"].get(body["key"])})
        elif body["type"] == "prepare":
            self.prepare(body)
        else:
            self.finish(src, body)

    def prepare(self, body: dict[str, Any]) -> None:
        key = json.dumps(body["txn"])
        if key in self.state["over"]:
            return
        mine, promised = body["writes"][self.id], self.state["promised"]
        if any(set(mine) & set(other) for name, other in promised.items() if name != key):
            self.send("n0", {"type": "no", "txn": body["txn"]})
            return
        if key not in promised:
            promised[key] = mine
            self.save()
        if body["next"]:
            self.send(body["next"][0], {**body, "next": body["next"][1:]})
        else:
            self.send("n0", {"type": "all-yes", "txn": body["txn"]})

    def finish(self, src: str, body: dict[str, Any]) -> None:
        key = json.dumps(body["txn"])
        if key not in self.state["over"]:
            mine = self.state["promised"].pop(key, {})
            if body["type"] == "committed":
                self.state["values"].update(mine)
            self.state["over"].append(key)
            self.save()
        self.send(src, {"type": "heard", "txn": body["txn"]})
