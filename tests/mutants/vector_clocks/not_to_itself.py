"""A node does not deliver its own messages.

check: delivers
kind: lost_or_duplicated
"""

from grader.nodes import Node


class VectorClock:
    """How many events of each node are known; a node that is not in `ticks` has none."""

    def __init__(self):
        self.ticks = {}

    def tick(self, node):
        """One more event of `node`."""
        self.ticks[node] = self.ticks.get(node, 0) + 1

    def merge(self, other):
        """Know all that `other` knows: the entrywise maximum."""
        for node, ticks in other.ticks.items():
            self.ticks[node] = max(ticks, self.ticks.get(node, 0))

    def compare(self, other):
        """ "before", "after", "equal" or "concurrent", of this clock against `other`."""
        nodes = self.ticks.keys() | other.ticks.keys()
        less = any(self.ticks.get(node, 0) < other.ticks.get(node, 0) for node in nodes)
        greater = any(self.ticks.get(node, 0) > other.ticks.get(node, 0) for node in nodes)
        if less and greater:
            return "concurrent"
        return "before" if less else "after" if greater else "equal"


class CausalBroadcast(Node):
    """Every message carries its sender's clock: how many messages of each node it follows, itself included."""

    def on_start(self):
        self.clock = VectorClock()  # how many messages of each node are delivered here
        self.waiting = []  # messages that came before what they follow
        self.unanswered = {}  # (peer, number of a message of ours): the message, until it arrived
        self.set_timer("again", 0.2)

    def on_message(self, src, body):
        if body["type"] == "broadcast":
            self.clock.tick(self.id)
            cast = {"type": "cast", "from": self.id, "clock": dict(self.clock.ticks), "message": body["message"]}
            for peer in self.peers:
                self.unanswered[peer, self.clock.ticks[self.id]] = cast
                self.send(peer, cast)
            self.reply(body, {"type": "broadcast_ok"})
        elif body["type"] == "cast":
            number = body["clock"][src]
            self.send(src, {"type": "arrived", "number": number})
            if number > self.delivered(src) and body not in self.waiting:
                self.waiting.append(body)
                self.deliver_what_can_be()
        elif body["type"] == "arrived":
            self.unanswered.pop((src, body["number"]), None)

    def on_timer(self, name):
        for (peer, _), cast in self.unanswered.items():
            self.send(peer, cast)
        self.set_timer("again", 0.2)

    def delivered(self, node):
        return self.clock.ticks.get(node, 0)

    def deliver_what_can_be(self):
        """One that is delivered may be what others waited for: go on until none can be."""
        while True:
            ready = next((cast for cast in self.waiting if self.is_next(cast)), None)
            if ready is None:
                return
            self.waiting.remove(ready)
            self.clock.tick(ready["from"])
            self.deliver(ready["message"])

    def is_next(self, cast):
        """The next of its sender, and all that it follows is delivered."""
        return all(
            ticks == self.delivered(node) + 1 if node == cast["from"] else ticks <= self.delivered(node)
            for node, ticks in cast["clock"].items()
        )

    def deliver(self, message):
        self.send("c" + self.id[1:], {"type": "deliver", "message": message})
