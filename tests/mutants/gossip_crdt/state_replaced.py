"""The state that comes replaces the one that is there.

check: g_set
kind: timeout
"""

from grader.nodes import Node


class GCounter:
    """A counter that only grows: each node counts for itself."""

    def __init__(self):
        self.counts = {}

    def increment(self, node, amount=1):
        self.counts[node] = self.counts.get(node, 0) + amount

    def merge(self, other):
        for node, count in other.counts.items():
            self.counts[node] = max(count, self.counts.get(node, 0))

    def value(self):
        return sum(self.counts.values())

    def to_json(self):
        return dict(self.counts)

    @classmethod
    def from_json(cls, told):
        counter = cls()
        counter.counts = dict(told)
        return counter


class PNCounter:
    """What was added and what was taken away, each in a counter that only grows."""

    def __init__(self):
        self.added, self.taken = GCounter(), GCounter()

    def increment(self, node, amount=1):
        self.added.increment(node, amount)

    def decrement(self, node, amount=1):
        self.taken.increment(node, amount)

    def merge(self, other):
        self.added.merge(other.added)
        self.taken.merge(other.taken)

    def value(self):
        return self.added.value() - self.taken.value()

    def to_json(self):
        return [self.added.to_json(), self.taken.to_json()]

    @classmethod
    def from_json(cls, told):
        counter = cls()
        counter.added, counter.taken = map(GCounter.from_json, told)
        return counter


class LWWRegister:
    """The value with the greatest (timestamp, node)."""

    def __init__(self):
        self.written = None  # (timestamp, node, value) of the last write

    def set(self, value, timestamp, node):
        if self.written is None or (timestamp, node) > self.written[:2]:
            self.written = timestamp, node, value

    def merge(self, other):
        if other.written is not None:
            timestamp, node, value = other.written
            self.set(value, timestamp, node)

    def value(self):
        return None if self.written is None else self.written[2]

    def to_json(self):
        return self.written and list(self.written)

    @classmethod
    def from_json(cls, told):
        register = cls()
        register.written = told and tuple(told)
        return register


class ORSet:
    """Every add has a tag that is never used again: (node, number). A remove covers the tags that are here."""

    def __init__(self):
        self.tags = {}  # tag: element
        self.removed = set()  # tags

    def add(self, element, node):
        used = [number for name, number in self.tags.keys() | self.removed if name == node]
        self.tags[node, max(used, default=0) + 1] = element

    def remove(self, element):
        for tag in [tag for tag, there in self.tags.items() if there == element]:
            del self.tags[tag]
            self.removed.add(tag)

    def merge(self, other):
        self.removed |= other.removed
        both = self.tags | other.tags
        self.tags = {tag: element for tag, element in both.items() if tag not in self.removed}

    def value(self):
        return set(self.tags.values())

    def to_json(self):
        return {"tags": [[*tag, element] for tag, element in self.tags.items()], "removed": sorted(self.removed)}

    @classmethod
    def from_json(cls, told):
        found = cls()
        found.tags = {(node, number): element for node, number, element in told["tags"]}
        found.removed = {(node, number) for node, number in told["removed"]}
        return found


class GossipStore(Node):
    """A g-set or a pn-counter, as self.workload says, on every node."""

    def on_start(self):
        # Who hears news tells at once the nodes 1, 2, 4, ... places further on: after log2 N hops all have heard it.
        # What gets lost is found by one message a second to a random node, who answers if it knows something else.
        self.state = set() if self.workload == "g-set" else PNCounter()
        ring = sorted((self.id, *self.peers))
        here = ring.index(self.id)
        self.further = [ring[(here + 2**power) % len(ring)] for power in range(20) if 2**power < len(ring)]
        self.set_timer("tick", self.random.random())

    def on_message(self, src, body):
        if body["type"] == "add":
            self.add(body)
            self.reply(body, {"type": "add_ok"})
            self.spread()
        elif body["type"] == "read":
            value = list(self.state) if self.workload == "g-set" else self.state.value()
            self.reply(body, {"type": "read_ok", "value": value})
        elif body["type"] == "state":
            before = self.told()
            self.merge(body["state"])
            if self.told() != before:
                self.spread()
            if self.told() != body["state"]:
                self.send(src, {"type": "state", "state": self.told()})

    def on_timer(self, name):
        self.set_timer("tick", 1.0)
        if self.peers:
            self.send(self.random.choice(self.peers), {"type": "state", "state": self.told()})

    def add(self, body):
        if self.workload == "g-set":
            self.state.add(body["element"])
        elif body["delta"] >= 0:
            self.state.increment(self.id, body["delta"])
        else:
            self.state.decrement(self.id, -body["delta"])

    def merge(self, told):
        if self.workload == "g-set":
            self.state = set(told)
        else:
            self.state.merge(PNCounter.from_json(told))

    def told(self):
        return sorted(self.state, key=repr) if self.workload == "g-set" else self.state.to_json()

    def spread(self):
        for peer in self.further:
            self.send(peer, {"type": "state", "state": self.told()})
