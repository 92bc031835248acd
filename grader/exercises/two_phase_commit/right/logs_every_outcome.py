"""The coordinator logs the beginning and every outcome and tells until all confirm; a participant's state is one value."""

import json

from grader.nodes import Node

VOTING = 1.0
AGAIN = 0.5


class Coordinator(Node):
    """On disk, under the transaction's name: its state, and who has not confirmed the outcome (`left`)."""

    def on_start(self):
        self.voting = {}  # name -> {"request", "yes"}
        self.telling = {}  # name -> record
        for name in self.disk:
            record = self.disk[name]
            if record["state"] == "begun":
                record["state"] = "aborted"
                self.disk[name] = record
            if record["left"]:
                self.telling[name] = record
        self.tell()

    def on_message(self, src, body):
        name = json.dumps(body["txn"])
        if body["type"] == "begin":
            self.begin(name, body)
        elif body["type"] == "vote":
            self.vote(src, name, body["yes"])
        elif body["type"] == "ask":
            self.inform(src, name)
        elif body["type"] == "done" and name in self.telling:
            record = self.telling[name]
            if src in record["left"]:
                record["left"].remove(src)
                self.disk[name] = record
            if not record["left"]:
                del self.telling[name]

    def on_timer(self, name):
        if name == "again":
            self.tell()
        elif name in self.voting:
            self.decide(name, "aborted")

    def begin(self, name, request):
        if name in self.disk:
            return
        parts = sorted(request["writes"])
        self.disk[name] = {"txn": request["txn"], "state": "begun", "left": parts}
        self.voting[name] = {"request": request, "yes": set()}
        for part in parts:
            self.send(part, {"type": "prepare", "txn": request["txn"], "writes": request["writes"][part]})
        if parts:
            self.set_timer(name, VOTING)
        else:
            self.decide(name, "committed")

    def vote(self, src, name, yes):
        voting = self.voting.get(name)
        if voting is None:
            self.inform(src, name)
        elif not yes:
            self.decide(name, "aborted")
        else:
            voting["yes"].add(src)
            if voting["yes"] == set(voting["request"]["writes"]):
                self.decide(name, "committed")

    def decide(self, name, state):
        request = self.voting.pop(name)["request"]
        self.cancel_timer(name)
        record = self.disk[name]
        record["state"] = state
        self.disk[name] = record
        self.reply(request, {"type": state, "txn": record["txn"]})
        for part in record["left"]:
            self.inform(part, name)
        if record["left"]:
            if not self.telling:
                self.set_timer("again", AGAIN)
            self.telling[name] = record

    def inform(self, part, name):
        record = self.disk.get(name)
        if record is not None and record["state"] != "begun":
            self.send(part, {"type": "outcome", "txn": record["txn"], "state": record["state"]})

    def tell(self):
        for name, record in self.telling.items():
            for part in record["left"]:
                self.inform(part, name)
        if self.telling:
            self.set_timer("again", AGAIN)


class Participant(Node):
    """All it has is one value on disk: `values`, `promised` (name -> txn, writes, coordinator) and `over` (names)."""

    def on_start(self):
        self.book = self.disk.get("book", {"values": {}, "promised": {}, "over": {}})
        self.ask()

    def save(self):
        self.disk["book"] = self.book

    def on_message(self, src, body):
        if body["type"] == "read":
            self.reply(body, {"type": "read_ok", "value": self.book["values"].get(str(body["key"]))})
        elif body["type"] == "prepare":
            self.prepare(src, body)
        elif body["type"] == "outcome":
            self.outcome(src, body)

    def prepare(self, src, body):
        name, promised = json.dumps(body["txn"]), self.book["promised"]
        if name in self.book["over"]:
            return
        if name not in promised:
            locked = {key for promise in promised.values() for key in promise["writes"]}
            if locked & set(body["writes"]):
                self.send(src, {"type": "vote", "txn": body["txn"], "yes": False})
                return
            if not promised:
                self.set_timer("ask", AGAIN)
            promised[name] = {"txn": body["txn"], "writes": body["writes"], "from": src}
            self.save()
        self.send(src, {"type": "vote", "txn": body["txn"], "yes": True})

    def outcome(self, src, body):
        name = json.dumps(body["txn"])
        promise = self.book["promised"].pop(name, None)
        if promise is not None and body["state"] == "committed":
            self.book["values"].update(promise["writes"])
        if promise is not None or name not in self.book["over"]:
            self.book["over"][name] = body["state"]
            self.save()
        self.send(src, {"type": "done", "txn": body["txn"]})

    def ask(self):
        for promise in self.book["promised"].values():
            self.send(promise["from"], {"type": "ask", "txn": promise["txn"]})
        if self.book["promised"]:
            self.set_timer("ask", AGAIN)

    def on_timer(self, name):
        self.ask()
