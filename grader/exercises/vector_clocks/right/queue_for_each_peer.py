"""Each message has its sender's clock, waits in a list, and is sent again to each peer until that one has it."""

from grader.nodes import Node

AGAIN = 0.3


class VectorClock:
    def __init__(self):
        self.ticks = {}

    def __getitem__(self, node):
        return self.ticks.get(node, 0)

    def tick(self, node):
        self.ticks[node] = self[node] + 1

    def merge(self, other):
        for node, count in other.ticks.items():
            self.ticks[node] = max(self[node], count)

    def compare(self, other):
        nodes = self.ticks.keys() | other.ticks.keys()
        less = any(self[node] < other[node] for node in nodes)
        more = any(self[node] > other[node] for node in nodes)
        if less and more:
            return "concurrent"
        return "before" if less else "after" if more else "equal"


class CausalBroadcast(Node):
    def on_start(self):
        self.clock = VectorClock()
        self.waiting = []  # (sender, stamp, message)
        self.seen = set()  # (sender, number) of what waits or is delivered
        self.unheard = {}  # (peer, number) -> what it has not confirmed

    def on_message(self, src, body):
        if body["type"] == "broadcast":
            self.broadcast(body)
        elif body["type"] == "causal":
            stamp = body["stamp"]
            number = stamp[src]
            self.send(src, {"type": "got", "number": number})
            if (src, number) not in self.seen:
                self.seen.add((src, number))
                self.waiting.append((src, stamp, body["message"]))
                self.deliver_waiting()
        elif body["type"] == "got":
            self.unheard.pop((src, body["number"]), None)

    def on_timer(self, name):
        for (peer, _), body in self.unheard.items():
            self.send(peer, body)
        if self.unheard:
            self.set_timer("again", AGAIN)

    def broadcast(self, request):
        self.clock.tick(self.id)
        stamp = dict(self.clock.ticks)
        self.deliver(request["message"])
        self.reply(request, {"type": "broadcast_ok"})
        body = {"type": "causal", "stamp": stamp, "message": request["message"]}
        if not self.unheard:
            self.set_timer("again", AGAIN)
        for peer in self.peers:
            self.unheard[peer, stamp[self.id]] = body
            self.send(peer, body)

    def ready(self, src, stamp):
        return all(count <= self.clock[node] + (node == src) for node, count in stamp.items())

    def deliver_waiting(self):
        again = True
        while again:
            again = False
            for item in list(self.waiting):
                src, stamp, message = item
                if self.ready(src, stamp):
                    self.waiting.remove(item)
                    self.clock.tick(src)
                    self.deliver(message)
                    again = True

    def deliver(self, message):
        self.send("c" + self.id[1:], {"type": "deliver", "message": message})
