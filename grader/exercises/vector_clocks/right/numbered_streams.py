"""Numbered streams with cumulative confirmation (go-back-N), pointer per sender; compare by a set of signs."""

from grader.nodes import Node


class VectorClock:
    def __init__(self):
        self.ticks = {}

    def of(self, node):
        return self.ticks.get(node, 0)

    def tick(self, node):
        self.ticks[node] = self.of(node) + 1

    def merge(self, other):
        self.ticks.update({node: max(self.of(node), count) for node, count in other.ticks.items()})

    def compare(self, other):
        if self.ticks == other.ticks:
            return "equal"
        signs = {self.of(node) - other.of(node) > 0 for node in self.ticks.keys() | other.ticks.keys()
                 if self.of(node) != other.of(node)}
        if not signs:
            return "equal"
        if len(signs) == 2:
            return "concurrent"
        return "after" if signs.pop() else "before"


class CausalBroadcast(Node):
    """Each node keeps a numbered stream of its own broadcasts, and sends each peer what this has not confirmed.

    A peer confirms by the length of the prefix of the stream that it has.
    """

    AGAIN = 0.2

    def on_start(self):
        everyone = (self.id, *self.peers)
        self.delivered = dict.fromkeys(everyone, 0)
        self.inbox = {peer: {} for peer in self.peers}  # peer -> number -> item
        self.prefix = dict.fromkeys(self.peers, 0)  # peer -> how many of its items came, without a gap
        self.stream = []  # own items
        self.confirmed = dict.fromkeys(self.peers, 0)
        self.client = "c" + self.id[1:]
        self.ticking = False

    def on_message(self, src, body):
        kind = body["type"]
        if kind == "broadcast":
            self.broadcast(body)
        elif kind == "items":
            box = self.inbox[src]
            for number, item in enumerate(body["items"], body["first"]):
                if number > self.delivered[src]:
                    box.setdefault(number, item)
            while self.prefix[src] + 1 in box:
                self.prefix[src] += 1
            self.send(src, {"type": "have", "count": self.prefix[src]})
            self.deliver_all()
        elif kind == "have":
            self.confirmed[src] = max(self.confirmed[src], body["count"])

    def broadcast(self, body):
        item = {"message": body["message"], "after": dict(self.delivered)}
        self.stream.append(item)
        number = len(self.stream)
        self.delivered[self.id] = number
        self.send(self.client, {"type": "deliver", "message": item["message"]})
        self.reply(body, {"type": "broadcast_ok"})
        for peer in self.peers:
            self.send(peer, {"type": "items", "first": number, "items": [item]})
        if self.peers and not self.ticking:
            self.ticking = True
            self.set_timer("again", self.AGAIN)

    def ready(self, peer):
        """The next item of this peer, as a list of one, or of none if it is not here, or has to wait."""
        item = self.inbox[peer].get(self.delivered[peer] + 1)
        if item is None:
            return []
        if any(count > self.delivered[node] for node, count in item["after"].items()):
            return []
        return [item]

    def deliver_all(self):
        progress = True
        while progress:
            progress = False
            for peer in self.peers:
                for item in self.ready(peer):
                    self.delivered[peer] += 1
                    del self.inbox[peer][self.delivered[peer]]
                    self.send(self.client, {"type": "deliver", "message": item["message"]})
                    progress = True

    def on_timer(self, name):
        behind = False
        for peer in self.peers:
            count = self.confirmed[peer]
            if count < len(self.stream):
                behind = True
                self.send(peer, {"type": "items", "first": count + 1, "items": self.stream[count:]})
        self.ticking = behind
        if behind:
            self.set_timer("again", self.AGAIN)
