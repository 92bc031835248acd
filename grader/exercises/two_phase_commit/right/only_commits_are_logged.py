"""Presumed abort: only commits are logged, prepares are sent again, and participants ask until they are told."""

import json

from grader.nodes import Node

RETRY = 0.4
TRIES = 3
ASK = 0.5


class Coordinator(Node):
    """On disk: name -> "begun" or "committed". What is begun and not being voted on is aborted."""

    def on_start(self):
        self.votes = {}  # name -> {"request", "yes", "tries"}

    def on_message(self, src, body):
        name = json.dumps(body["txn"])
        vote = self.votes.get(name)
        if body["type"] == "begin":
            if name not in self.disk:
                self.disk[name] = "begun"
                self.votes[name] = {"request": body, "yes": set(), "tries": 0}
                self.canvass(name)
        elif body["type"] == "ask":
            if vote is None:
                self.tell(src, name, body["txn"])
        elif body["type"] == "vote":
            if vote is None:
                self.tell(src, name, body["txn"])
            elif not body["yes"]:
                self.decide(name, False)
            else:
                vote["yes"].add(src)
                if len(vote["yes"]) == len(vote["request"]["writes"]):
                    self.decide(name, True)

    def on_timer(self, name):
        if name in self.votes:
            self.votes[name]["tries"] += 1
            if self.votes[name]["tries"] < TRIES:
                self.canvass(name)
            else:
                self.decide(name, False)

    def canvass(self, name):
        """Ask for the votes that are not there."""
        vote = self.votes[name]
        request = vote["request"]
        if not request["writes"]:
            self.decide(name, True)
            return
        for part, writes in request["writes"].items():
            if part not in vote["yes"]:
                self.send(part, {"type": "prepare", "txn": request["txn"], "writes": writes})
        self.set_timer(name, RETRY)

    def decide(self, name, commit):
        request = self.votes.pop(name)["request"]
        self.cancel_timer(name)
        if commit:
            self.disk[name] = "committed"
        self.reply(request, {"type": "committed" if commit else "aborted", "txn": request["txn"]})
        for part in request["writes"]:
            self.tell(part, name, request["txn"])

    def tell(self, part, name, txn):
        self.send(part, {"type": "outcome", "txn": txn, "commit": self.disk.get(name) == "committed"})


class Participant(Node):
    """On disk: "value KEY"; "promise NAME" from the yes vote until the outcome is applied; "over NAME" after it."""

    def on_start(self):
        self.promises = {}  # name -> what is on disk
        self.wants = {}  # name -> keys, of each transaction that it was asked about and has no outcome of
        self.locks = {}  # key -> name of the promise that holds it
        for place in self.disk:
            kind, name = place.split(" ", 1)
            if kind == "promise":
                if "over " + name in self.disk:  # applied, and crashed before it was crossed out
                    del self.disk[place]
                else:
                    self.promises[name] = self.disk[place]
                    self.wants[name] = list(self.promises[name]["writes"])
                    self.locks.update((key, name) for key in self.wants[name])
        self.ask()

    def on_message(self, src, body):
        if body["type"] == "read":
            self.reply(body, {"type": "read_ok", "value": self.disk.get(f"value {body['key']}")})
        elif body["type"] == "prepare":
            self.prepare(src, body)
        elif body["type"] == "outcome":
            self.outcome(json.dumps(body["txn"]), body["commit"])

    def prepare(self, src, body):
        name = json.dumps(body["txn"])
        if "over " + name in self.disk:
            return
        if name not in self.promises:
            self.wants[name] = list(body["writes"])
            if any(key in self.locks for key in self.wants[name]):
                self.send(src, {"type": "vote", "txn": body["txn"], "yes": False})
                return
            promise = {"txn": body["txn"], "writes": body["writes"], "from": src}
            self.disk["promise " + name] = promise
            if not self.promises:
                self.set_timer("ask", ASK)
            self.promises[name] = promise
            self.locks.update((key, name) for key in self.wants[name])
        self.send(src, {"type": "vote", "txn": body["txn"], "yes": True})

    def outcome(self, name, commit):
        promise = self.promises.pop(name, None)
        if promise is not None:
            if commit:
                for key, value in promise["writes"].items():
                    self.disk["value " + key] = value
            self.disk["over " + name] = commit
            del self.disk["promise " + name]
        for key in self.wants.pop(name, ()):
            if self.locks.get(key) == name:
                del self.locks[key]

    def ask(self):
        for promise in self.promises.values():
            self.send(promise["from"], {"type": "ask", "txn": promise["txn"]})
        if self.promises:
            self.set_timer("ask", ASK)

    def on_timer(self, name):
        self.ask()
