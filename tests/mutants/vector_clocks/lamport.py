"""Messages carry one number, a Lamport clock, and are delivered if theirs is greater than the last.

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
    def on_start(self):
        self.time = 0
        self.unanswered = {}
        self.set_timer("again", 0.2)

    def on_message(self, src, body):
        if body["type"] == "broadcast":
            self.time += 1
            for peer in self.peers:
                cast = {"type": "cast", "time": self.time, "message": body["message"]}
                self.unanswered[peer, self.time] = cast
                self.send(peer, cast)
            self.deliver(body["message"])
            self.reply(body, {"type": "broadcast_ok"})
        elif body["type"] == "cast":
            self.send(src, {"type": "arrived", "time": body["time"]})
            if body["time"] > self.time:
                self.time = body["time"]
                self.deliver(body["message"])
        else:
            self.unanswered.pop((src, body["time"]), None)

    def on_timer(self, name):
        for (peer, _), cast in self.unanswered.items():
            self.send(peer, cast)
        self.set_timer("again", 0.2)

    def deliver(self, message):
        self.send("c" + self.id[1:], {"type": "deliver", "message": message})
