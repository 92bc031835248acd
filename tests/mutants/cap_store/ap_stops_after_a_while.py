"""AP tells the others ten times after its last write and then no more: a longer partition outlasts it.

check: converged
kind: not_converged
"""

from __future__ import annotations

import json
from typing import Any

from grader.nodes import Node

PATIENCE = 1.5  # seconds after which a request that has found no majority is given up
GOSSIP = 0.4  # seconds between two messages to the next peer


class Store(Node):
    """One replica of a key-value store that keeps either consistency or availability while the network is cut."""

    mode = "CP"

    def on_start(self) -> None:
        self.asked: dict[int, dict[str, Any]] = {}  # my questions to all: whose request it is, and who has answered
        self.number = self.turn = self.count = 0
        if self.mode == "AP":
            self.set_timer("gossip", GOSSIP)

    def on_message(self, src: str, body: dict[str, Any]) -> None:
        match body["type"]:
            case "read" | "write" if self.mode == "AP":
                self.answer_at_once(body)
            case "read" | "write":
                self.ask_all({"type": "get", "key": body["key"]}, body)
            case "get":
                stamp, value = self.entry(body["key"])
                self.send(src, {"type": "heard", "number": body["number"], "stamp": stamp, "value": value})
            case "put":
                self.keep(body["key"], body["stamp"], body["value"])
                if "number" in body:
                    self.send(src, {"type": "heard", "number": body["number"]})
            case "heard":
                self.heard(src, body)

    def on_timer(self, name: str) -> None:
        if name == "gossip":
            self.turn += 1
            if self.turn > 10:
                return
            peer = self.peers[self.turn % len(self.peers)]
            for key in self.disk:
                stamp, value = self.disk[key]
                self.send(peer, {"type": "put", "key": json.loads(key), "stamp": stamp, "value": value})
            self.set_timer("gossip", GOSSIP)
        elif int(name) in self.asked:
            request = self.asked.pop(int(name))["request"]  # 0: whether it happened, nobody knows
            self.reply(request, {"type": "error", "code": 0, "text": "no majority within reach"})

    def entry(self, key: Any) -> list[Any]:
        """[stamp, value]: a stamp is [counter, id of the node that wrote], and the greater one is the later."""
        found: list[Any] = self.disk.get(json.dumps(key), [[0, ""], None])
        return found

    def keep(self, key: Any, stamp: list[Any], value: Any) -> None:
        if stamp > self.entry(key)[0]:
            self.disk[json.dumps(key)] = [stamp, value]

    # ---- AP: answer with what is here, and tell the others

    def answer_at_once(self, request: dict[str, Any]) -> None:
        key = request["key"]
        (counter, _), value = self.entry(key)
        if request["type"] == "read":
            self.reply(request, {"type": "read_ok", "value": value})
            return
        self.keep(key, [counter + 1, self.id], request["value"])
        self.turn = 0
        self.set_timer("gossip", GOSSIP)
        self.reply(request, {"type": "write_ok"})

    # ---- CP: a majority says what is the latest, and a majority keeps it

    def ask_all(self, question: dict[str, Any], request: dict[str, Any], value: Any = None) -> None:
        self.number += 1
        self.asked[self.number] = {"request": request, "question": question, "answers": {}, "value": value}
        for node in (self.id, *self.peers):
            self.send(node, {**question, "number": self.number})
        self.set_timer(str(self.number), PATIENCE / 2)

    def heard(self, src: str, body: dict[str, Any]) -> None:
        asked = self.asked.get(body["number"])
        if asked is None:
            return
        asked["answers"][src] = body  # by node, so that nobody counts twice
        if len(asked["answers"]) <= (len(self.peers) + 1) // 2:
            return
        del self.asked[body["number"]]
        self.cancel_timer(str(body["number"]))
        request, question = asked["request"], asked["question"]
        if question["type"] == "put":
            answer = (
                {"type": "write_ok"} if request["type"] == "write" else {"type": "read_ok", "value": asked["value"]}
            )
            self.reply(request, answer)
            return
        stamp, value = max(((one["stamp"], one["value"]) for one in asked["answers"].values()), key=lambda one: one[0])
        if request["type"] == "write":
            self.count = max(self.count, stamp[0]) + 1  # mine may be on their way, two at once too: never one twice
            stamp, value = [self.count, self.id], request["value"]
        put = {"type": "put", "key": request["key"], "stamp": stamp, "value": value}
        self.ask_all(put, request, value)  # also for a read: whoever reads after it must not see less
