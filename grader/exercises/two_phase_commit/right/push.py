"""Participants push: they repeat their yes until they hear the outcome; each participant's whole book is one disk value, so applying is one write; presumed abort, commits are remembered."""

import json

from grader.nodes import Node


class Coordinator(Node):
    def on_start(self):
        self.open = {}  # name -> {"txn", "writes", "yes", "request"}
        self.left = {}  # name -> participants that have not confirmed
        for key in list(self.disk):
            record = self.disk[key]
            if record["outcome"] is None:
                record["outcome"] = "aborted"
                self.disk[key] = record
            self.left[key] = set(record["parts"])
        for name in self.left:
            self.tell(name)
        self.set_timer("again", 0.5)

    def on_message(self, src, body):
        kind = body["type"]
        if kind == "begin":
            name = json.dumps(body["txn"])
            writes = body["writes"]
            self.disk[name] = {"parts": sorted(writes), "outcome": None}
            self.open[name] = {"txn": body["txn"], "writes": writes, "yes": set(), "request": body}
            if not writes:
                self.decide(name, "committed")
                return
            self.set_timer("voting " + name, 1.0)
            self.ask(name)
        elif kind == "vote":
            self.vote(src, body["name"], body["yes"])
        elif kind == "known":
            self.left.get(body["name"], set()).discard(src)

    def ask(self, name):
        state = self.open[name]
        for part, writes in state["writes"].items():
            if part not in state["yes"]:
                self.send(part, {"type": "prepare", "name": name, "writes": writes})

    def vote(self, src, name, yes):
        state = self.open.get(name)
        if state is None:
            if yes:
                record = self.disk.get(name)
                self.send(src, {"type": "outcome", "name": name, "outcome": record["outcome"] if record else "aborted"})
            return
        if not yes:
            self.decide(name, "aborted")
            return
        state["yes"].add(src)
        if len(state["yes"]) == len(state["writes"]):
            self.decide(name, "committed")

    def decide(self, name, outcome):
        state = self.open.pop(name)
        self.cancel_timer("voting " + name)
        self.disk[name] = {"parts": sorted(state["writes"]), "outcome": outcome}
        self.left[name] = set(state["writes"])
        self.reply(state["request"], {"type": outcome, "txn": state["txn"]})
        self.tell(name)

    def tell(self, name):
        outcome = self.disk[name]["outcome"]
        for part in sorted(self.left[name]):
            self.send(part, {"type": "outcome", "name": name, "outcome": outcome})

    def on_timer(self, name):
        if name == "again":
            for txn in list(self.open):
                self.ask(txn)
            for txn in list(self.left):
                if self.left[txn]:
                    self.tell(txn)
                else:
                    del self.left[txn]
            self.set_timer("again", 0.5)
        elif name.startswith("voting "):
            txn = name[len("voting ") :]
            if txn in self.open:
                self.decide(txn, "aborted")


class Participant(Node):
    def on_start(self):
        self.book = self.disk.get("book", {"values": {}, "promises": {}, "over": {}})
        self.locks = {}
        for name, promise in self.book["promises"].items():
            self.locks.update(dict.fromkeys(promise["writes"], name))
        self.repeat()

    def write(self):
        self.disk["book"] = self.book

    def repeat(self):
        for name, promise in self.book["promises"].items():
            self.send(promise["boss"], {"type": "vote", "name": name, "yes": True})
        self.set_timer("again", 0.5)

    def on_timer(self, name):
        self.repeat()

    def on_message(self, src, body):
        kind = body["type"]
        if kind == "read":
            self.reply(body, {"type": "read_ok", "value": self.book["values"].get(str(body["key"]))})
        elif kind == "prepare":
            self.prepare(src, body["name"], body["writes"])
        elif kind == "outcome":
            self.finish(body["name"], body["outcome"])
            self.send(src, {"type": "known", "name": body["name"]})

    def prepare(self, boss, name, writes):
        if name in self.book["over"]:
            self.send(boss, {"type": "known", "name": name})
            return
        if name not in self.book["promises"]:
            if any(key in self.locks for key in writes):
                self.send(boss, {"type": "vote", "name": name, "yes": False})
                return
            for key in writes:
                self.locks[key] = name
            self.book["promises"][name] = {"boss": boss, "writes": writes}
            self.write()
        self.send(boss, {"type": "vote", "name": name, "yes": True})

    def finish(self, name, outcome):
        if name in self.book["over"]:
            return
        promise = self.book["promises"].pop(name, None)
        if promise is not None and outcome == "committed":
            for key, value in promise["writes"].items():
                self.book["values"][key] = value
        self.book["over"][name] = outcome
        self.write()
        self.locks = {key: holder for key, holder in self.locks.items() if holder != name}
