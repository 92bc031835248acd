"""There is no Participant.

check: commit
kind: missing_function
"""

import json
from typing import Any

from grader.nodes import Node

VOTING = 1.0  # seconds that the coordinator waits for votes
AGAIN = 0.5  # seconds after which something is said or asked again


class Coordinator(Node):
    """Asks all participants of a transaction, decides, and tells them until each has said that it knows."""

    def on_start(self) -> None:
        self.votes: dict[str, set[str]] = {}  # who has voted yes; after a crash nobody has
        for name in self.disk:
            if self.disk[name]["outcome"] is None:
                self.decide(name, "aborted")  # nobody was told anything yet, so it is free to
            else:
                self.tell(name)

    def on_message(self, src: str, body: dict[str, Any]) -> None:
        name = json.dumps(body["txn"])  # a key of disk is a string, 7 and "7" are two transactions
        if body["type"] == "begin":
            log = {"client": src, "msg_id": body["msg_id"], "outcome": None, "open": list(body["writes"])}
            self.disk[name] = log
            self.votes[name] = set()
            self.set_timer(name, VOTING)
            for participant, writes in body["writes"].items():
                self.send(participant, {"type": "prepare", "txn": body["txn"], "writes": writes})
            return
        log = self.disk[name]
        if body["type"] == "vote" and log["outcome"] is None:
            self.votes[name].add(src)
            if not body["yes"]:
                self.decide(name, "aborted")
            elif self.votes[name] == set(log["open"]):
                self.decide(name, "committed")
        elif body["type"] == "done" and src in log["open"]:
            log["open"].remove(src)
            self.disk[name] = log
            if not log["open"]:
                self.cancel_timer(name)
        elif body["type"] == "what" and log["outcome"] is not None:
            self.send(src, {"type": "outcome", "txn": body["txn"], "outcome": log["outcome"]})

    def on_timer(self, name: str) -> None:
        if self.disk[name]["outcome"] is None:
            self.decide(name, "aborted")
        else:
            self.tell(name)

    def decide(self, name: str, outcome: str) -> None:
        log = {**self.disk[name], "outcome": outcome}
        self.disk[name] = log  # from here on it is decided; only then is anybody told
        self.send(log["client"], {"type": outcome, "txn": json.loads(name), "in_reply_to": log["msg_id"]})
        self.tell(name)

    def tell(self, name: str) -> None:
        log = self.disk[name]
        for participant in log["open"]:
            self.send(participant, {"type": "outcome", "txn": json.loads(name), "outcome": log["outcome"]})
        if log["open"]:
            self.set_timer(name, AGAIN)
