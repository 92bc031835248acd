"""Journals that are replayed; participants are asked one after the other; a restarted coordinator goes on voting."""

import json

from grader.nodes import Node

RESEND = 0.3
PATIENCE = 1.2
AGAIN = 0.5


class Journal:
    """The only thing on disk: entries that are only ever added."""

    def __init__(self, disk):
        self.disk = disk
        self.length = len(disk)

    def __iter__(self):
        return (self.disk[str(number)] for number in range(self.length))

    def append(self, *entry):
        self.disk[str(self.length)] = entry
        self.length += 1


class Deal:
    def __init__(self, txn, writes):
        self.txn, self.writes = txn, writes
        self.request = None
        self.state = "voting"
        self.yes = set()
        self.left = sorted(writes)  # who has not confirmed the outcome

    def next(self):
        return next((part for part in sorted(self.writes) if part not in self.yes), None)


class Coordinator(Node):
    def on_start(self):
        self.journal = Journal(self.disk)
        self.deals = {}
        for what, name, *rest in self.journal:
            if what == "begin":
                self.deals[name] = Deal(*rest)
            elif what == "outcome":
                self.deals[name].state = rest[0]
            elif what == "end":
                self.deals[name].left = []
        for name, deal in self.deals.items():
            if deal.state == "voting":
                self.open(name)
            else:
                self.tell(name)

    def on_message(self, src, body):
        name = json.dumps(body["txn"])
        deal = self.deals.get(name)
        if body["type"] == "begin":
            if deal is None:
                self.journal.append("begin", name, body["txn"], body["writes"])
                deal = self.deals[name] = Deal(body["txn"], body["writes"])
                deal.request = body
                self.open(name)
        elif deal is None:
            return
        elif body["type"] == "vote" and deal.state == "voting":
            if not body["yes"]:
                self.decide(name, "aborted")
            elif src not in deal.yes:
                deal.yes.add(src)
                self.go_on(name)
        elif body["type"] in ("vote", "ask"):
            if deal.state != "voting":
                self.send(src, {"type": deal.state, "txn": deal.txn})
        elif body["type"] == "done" and src in deal.left:
            deal.left.remove(src)
            if not deal.left:
                self.journal.append("end", name)
                self.cancel_timer("tell " + name)

    def on_timer(self, name):
        what, name = name.split(" ", 1)
        if what == "tell":
            self.tell(name)
        elif self.deals[name].state == "voting":
            if what == "next":
                self.go_on(name)
            else:
                self.decide(name, "aborted")

    def open(self, name):
        self.set_timer("late " + name, PATIENCE)
        self.go_on(name)

    def go_on(self, name):
        """Ask the first of those who have not voted; commit if there is none."""
        deal = self.deals[name]
        part = deal.next()
        if part is None:
            self.decide(name, "committed")
        else:
            self.send(part, {"type": "prepare", "txn": deal.txn, "writes": deal.writes[part]})
            self.set_timer("next " + name, RESEND)

    def decide(self, name, state):
        deal = self.deals[name]
        self.journal.append("outcome", name, state)
        deal.state = state
        self.cancel_timer("late " + name)
        self.cancel_timer("next " + name)
        if deal.request is not None:
            self.reply(deal.request, {"type": state, "txn": deal.txn})
        self.tell(name)

    def tell(self, name):
        deal = self.deals[name]
        for part in deal.left:
            self.send(part, {"type": deal.state, "txn": deal.txn})
        if deal.left:
            self.set_timer("tell " + name, AGAIN)


class Participant(Node):
    def on_start(self):
        self.journal = Journal(self.disk)
        self.values = {}
        self.promised = {}  # name -> (txn, writes, coordinator)
        self.over = set()
        for what, name, *rest in self.journal:
            self.note(what, name, rest)
        self.on_timer("ask")

    def note(self, what, name, rest):
        """What an entry of the journal means."""
        if what == "yes":
            self.promised[name] = rest
            return
        promise = self.promised.pop(name, None)
        if what == "committed" and promise is not None:
            self.values.update(promise[1])
        self.over.add(name)

    def write(self, what, name, *rest):
        self.journal.append(what, name, *rest)
        self.note(what, name, list(rest))

    def on_message(self, src, body):
        kind = body["type"]
        if kind == "read":
            self.reply(body, {"type": "read_ok", "value": self.values.get(str(body["key"]))})
            return
        txn, name = body["txn"], json.dumps(body["txn"])
        if kind == "prepare" and name not in self.over:
            if name not in self.promised:
                if any(key in writes for _, writes, _ in self.promised.values() for key in body["writes"]):
                    self.send(src, {"type": "vote", "txn": txn, "yes": False})
                    return
                if not self.promised:
                    self.set_timer("ask", AGAIN)
                self.write("yes", name, txn, body["writes"], src)
            self.send(src, {"type": "vote", "txn": txn, "yes": True})
        elif kind in ("committed", "aborted"):
            if name not in self.over:
                self.write(kind, name)
            self.send(src, {"type": "done", "txn": txn})

    def on_timer(self, name):
        for txn, _, coordinator in self.promised.values():
            self.send(coordinator, {"type": "ask", "txn": txn})
        if self.promised:
            self.set_timer("ask", AGAIN)
