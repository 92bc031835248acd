"""The first node puts all messages in one order, which is causal; a node delivers its own when they come back."""

from grader.nodes import Node


class VectorClock:
    def __init__(self, ticks=()):
        self.ticks = dict(ticks)

    def __getitem__(self, node):
        return self.ticks.get(node, 0)

    def tick(self, node):
        self.ticks[node] = self[node] + 1

    def merge(self, other):
        self.ticks = {node: max(self[node], other[node]) for node in {**self.ticks, **other.ticks}}

    def compare(self, other):
        signs = {(self[n] > other[n]) - (self[n] < other[n]) for n in {**self.ticks, **other.ticks}} - {0}
        if signs == {-1, 1}:
            return "concurrent"
        return {-1: "before", 1: "after"}[signs.pop()] if signs else "equal"


class CausalBroadcast(Node):
    def on_start(self):
        self.leader = min((self.id, *self.peers))
        self.mine = []  # what was broadcast here, in order
        self.ordered = []  # at the leader: everything
        self.taken = {}  # at the leader: how many of each node are in it
        self.got = 0  # how many of the order are delivered here
        self.needs = {}  # at the leader: how many each of the others has
        self.set_timer("tick", 0.1)

    def on_message(self, src, body):
        if body["type"] == "broadcast":
            self.mine.append(body["message"])
            self.reply(body, {"type": "broadcast_ok"})
            self.push()
        elif body["type"] == "please_order":
            known = self.taken.get(src, 0)
            for message in body["messages"][max(0, known - body["first"]):]:
                self.ordered.append(message)
                self.taken[src] = self.taken.get(src, 0) + 1
            self.needs[src] = max(body["have"], self.needs.get(src, 0))
            self.send(src, {"type": "ordered", "first": self.needs[src], "messages": self.ordered[self.needs[src]:], "taken": self.taken.get(src, 0)})
            self.catch_up()
        elif body["type"] == "ordered":
            self.sent_until = max(getattr(self, "sent_until", 0), body["taken"])
            for message in body["messages"][max(0, self.got - body["first"]):]:
                self.deliver(message)

    def push(self):
        if self.id == self.leader:
            while self.taken.get(self.id, 0) < len(self.mine):
                self.ordered.append(self.mine[self.taken.get(self.id, 0)])
                self.taken[self.id] = self.taken.get(self.id, 0) + 1
            self.catch_up()
        else:
            first = getattr(self, "sent_until", 0)
            self.send(self.leader, {"type": "please_order", "first": first, "messages": self.mine[first:], "have": self.got})

    def catch_up(self):
        while self.got < len(self.ordered):
            self.deliver(self.ordered[self.got])

    def deliver(self, message):
        self.got += 1
        self.send("c" + self.id[1:], {"type": "deliver", "message": message})

    def on_timer(self, name):
        self.push()
        self.set_timer("tick", 0.1)
