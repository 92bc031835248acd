"""Every node keeps the log of every node; a digest goes round, and whoever is asked gives what the asker lacks."""

from collections import defaultdict

from grader.nodes import Node

ROUND = 0.15


class VectorClock:
    def __init__(self):
        self.counts = defaultdict(int)

    def tick(self, node):
        self.counts[node] += 1

    def covers(self, other):
        return all(self.counts.get(node, 0) >= count for node, count in other.counts.items())

    def merge(self, other):
        for node, count in other.counts.items():
            if count > self.counts.get(node, 0):
                self.counts[node] = count

    def compare(self, other):
        above, below = self.covers(other), other.covers(self)
        if above and below:
            return "equal"
        if above:
            return "after"
        return "before" if below else "concurrent"


class CausalBroadcast(Node):
    def on_start(self):
        self.logs = {node: [] for node in (self.id, *self.peers)}  # delivered, in each node's order
        self.early = {}  # (origin, number) -> entry
        self.turn = 0
        self.client = f"c{self.id[1:]}"
        self.set_timer("digest", ROUND)

    def counts(self):
        return {node: len(log) for node, log in self.logs.items()}

    def on_message(self, src, body):
        kind = body["type"]
        if kind == "broadcast":
            entry = {"after": self.counts(), "message": body["message"]}
            self.accept(self.id, entry)
            self.reply(body, {"type": "broadcast_ok"})
            for peer in self.peers:
                self.send(peer, self.news(self.id, len(self.logs[self.id]) - 1))
        elif kind == "digest":
            for origin, log in self.logs.items():
                for number in range(body["counts"].get(origin, 0), len(log)):
                    self.send(src, self.news(origin, number))
        elif kind == "news":
            origin, number = body["origin"], body["number"]
            if number >= len(self.logs[origin]):
                self.early[origin, number] = body["entry"]
                self.settle()

    def on_timer(self, name):
        if self.peers:
            self.send(self.peers[self.turn % len(self.peers)], {"type": "digest", "counts": self.counts()})
            self.turn += 1
        self.set_timer("digest", ROUND)

    def news(self, origin, number):
        return {"type": "news", "origin": origin, "number": number, "entry": self.logs[origin][number]}

    def accept(self, origin, entry):
        self.logs[origin].append(entry)
        self.send(self.client, {"type": "deliver", "message": entry["message"]})

    def settle(self):
        """Deliver what has become the next of its origin, and of which all that it follows is here."""
        while True:
            for (origin, number), entry in self.early.items():
                here = all(len(self.logs[node]) >= count for node, count in entry["after"].items())
                if number == len(self.logs[origin]) and here:
                    break
            else:
                return
            del self.early[origin, number]
            self.accept(origin, entry)
