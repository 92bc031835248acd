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


class Participant(Node):
    """Keeps values, and promises: who has voted yes waits for the outcome, however long that takes."""

    def on_start(self) -> None:
        self.values: dict[str, Any] = self.disk.get("values", {})
        self.prepared: dict[str, dict[str, Any]] = {}  # what each yes has locked, with the coordinator it was given to
        for name in self.disk:
            if name != "values" and self.disk[name] is not None:
                self.prepared[name] = self.disk[name]
                self.on_timer(name)

    def on_message(self, src: str, body: dict[str, Any]) -> None:
        if body["type"] == "read":
            self.reply(body, {"type": "read_ok", "value": self.values.get(body["key"])})
            return
        name = json.dumps(body["txn"])
        if body["type"] == "prepare" and name not in self.disk:  # a late copy of one that is over changes nothing
            locked = {key for entry in self.prepared.values() for key in entry["writes"]}
            yes = locked.isdisjoint(body["writes"])
            if yes:
                self.prepared[name] = {"writes": body["writes"], "coordinator": src}
                self.disk[name] = self.prepared[name]  # a yes is a promise: on disk before it is given
                self.set_timer(name, AGAIN)
            self.send(src, {"type": "vote", "txn": body["txn"], "yes": yes})
        elif body["type"] == "outcome":
            if name in self.prepared:
                self.finish(name, body["outcome"])
            self.send(src, {"type": "done", "txn": body["txn"]})

    def finish(self, name: str, outcome: str) -> None:
        if outcome == "committed":
            self.values.update(self.prepared[name]["writes"])
            self.disk["values"] = self.values  # before the promise is crossed out: doing this twice does no harm
        del self.prepared[name]
        self.disk[name] = None
        self.cancel_timer(name)

    def on_timer(self, name: str) -> None:
        """In doubt: ask, and ask again. Nothing else is allowed."""
        self.send(self.prepared[name]["coordinator"], {"type": "what", "txn": json.loads(name)})
        self.set_timer(name, AGAIN)
