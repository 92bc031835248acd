"""A message names only its direct predecessors; streams of numbered messages with cumulative acknowledgements."""

from grader.nodes import Node

AGAIN = 0.25


class VectorClock:
    """Entries are kept sorted by node, without zeros."""

    def __init__(self):
        self.entries = ()

    def tick(self, node):
        table = dict(self.entries)
        table[node] = table.get(node, 0) + 1
        self.entries = tuple(sorted(table.items()))

    def merge(self, other):
        table = dict(self.entries)
        table.update((node, max(count, table.get(node, 0))) for node, count in other.entries)
        self.entries = tuple(sorted(table.items()))

    def compare(self, other):
        if self.entries == other.entries:
            return "equal"
        both = VectorClock()
        both.merge(self)
        both.merge(other)
        if both.entries == other.entries:
            return "before"
        return "after" if both.entries == self.entries else "concurrent"


class CausalBroadcast(Node):
    def on_start(self):
        self.mine = {}  # number -> (predecessors, message) of what some peer may lack
        self.last = 0
        self.confirmed = {peer: 0 for peer in self.peers}
        self.inbox = {peer: {} for peer in self.peers}  # number -> (predecessors, message), not delivered
        self.received = {peer: 0 for peer in self.peers}  # all up to here were received
        self.delivered = {node: 0 for node in (self.id, *self.peers)}
        self.frontier = {}  # node -> number: what is delivered here and followed by nothing delivered here

    def on_message(self, src, body):
        kind = body["type"]
        if kind == "broadcast":
            self.broadcast(body)
        elif kind == "item":
            self.item(src, body)
        elif kind == "upto":
            self.confirmed[src] = max(self.confirmed[src], body["number"])
            everywhere = min(self.confirmed.values())
            for number in [number for number in self.mine if number <= everywhere]:
                del self.mine[number]

    def on_timer(self, name):
        for peer, confirmed in self.confirmed.items():
            for number in [number for number in self.mine if number > confirmed][:20]:
                self.tell(peer, number)
        if self.mine:
            self.set_timer("again", AGAIN)

    def tell(self, peer, number):
        follows, message = self.mine[number]
        self.send(peer, {"type": "item", "number": number, "follows": follows, "message": message})

    def broadcast(self, request):
        self.last += 1
        follows = sorted(self.frontier.items())
        if self.peers:
            if not self.mine:
                self.set_timer("again", AGAIN)
            self.mine[self.last] = (follows, request["message"])
        self.deliver(self.id, self.last, follows, request["message"])
        self.reply(request, {"type": "broadcast_ok"})
        for peer in self.peers:
            self.tell(peer, self.last)

    def item(self, src, body):
        number, inbox = body["number"], self.inbox[src]
        if number > self.received[src]:
            inbox[number] = (body["follows"], body["message"])
            while self.received[src] + 1 in inbox:
                self.received[src] += 1
        self.send(src, {"type": "upto", "number": self.received[src]})
        while any([self.next_of(peer) for peer in self.peers]):
            pass

    def next_of(self, peer):
        """Deliver the next message of `peer`, if it is here and what it follows is delivered."""
        number = self.delivered[peer] + 1
        if number not in self.inbox[peer]:
            return False
        follows, message = self.inbox[peer][number]
        if any(self.delivered[node] < count for node, count in follows):
            return False
        del self.inbox[peer][number]
        self.deliver(peer, number, follows, message)
        return True

    def deliver(self, node, number, follows, message):
        self.delivered[node] = number
        for before, count in follows:
            if self.frontier.get(before, 0) <= count:
                self.frontier.pop(before, None)
        self.frontier[node] = number
        self.send("c" + self.id[1:], {"type": "deliver", "message": message})
