"""One CRDT class under all four; nodes run coroutines; each node asks instead of telling."""

from grader.nodes import Node


class Lattice:
    """A map to things that only grow, joined key by key."""

    def __init__(self, cells=None):
        self.cells = dict(cells or {})

    def join(self, key, value):
        old = self.cells.get(key)
        self.cells[key] = value if old is None else self.greater(old, value)

    greater = staticmethod(max)

    def merge(self, other):
        for key, value in list(other.cells.items()):
            self.join(key, value)

    def to_json(self):
        return [[list(key) if isinstance(key, tuple) else key, value] for key, value in self.cells.items()]

    @classmethod
    def from_json(cls, told):
        found = cls()
        for key, value in told:
            found.cells[tuple(key) if isinstance(key, list) else key] = tuple(value) if isinstance(value, list) else value
        return found


class GCounter(Lattice):
    def increment(self, node, amount=1):
        self.cells[node] = self.cells.get(node, 0) + amount

    def value(self):
        return sum(self.cells.values())


class PNCounter(Lattice):
    def increment(self, node, amount=1):
        self.cells[node, "up"] = self.cells.get((node, "up"), 0) + amount

    def decrement(self, node, amount=1):
        self.cells[node, "down"] = self.cells.get((node, "down"), 0) + amount

    def value(self):
        return sum(amount if way == "up" else -amount for (_, way), amount in self.cells.items())


class LWWRegister(Lattice):
    @staticmethod
    def greater(one, other):
        return one if tuple(one[:2]) >= tuple(other[:2]) else other

    def set(self, value, timestamp, node):
        self.join("w", (timestamp, node, [value]))

    def value(self):
        return self.cells["w"][2][0] if self.cells else None


class ORSet(Lattice):
    """(node, number) -> (0 there | 1 removed, element, is it a string); removed is greater."""

    @staticmethod
    def greater(one, other):
        return one if one[0] >= other[0] else other

    def add(self, element, node):
        number = sum(1 for name, _ in self.cells if name == node)
        self.cells[node, number] = (0, element)

    def remove(self, element):
        for key, (gone, there) in self.cells.items():
            if there == element and not gone:
                self.cells[key] = (1, element)

    def value(self):
        return [*{element: None for gone, element in self.cells.values() if not gone}]


class GossipStore(Node):
    def on_start(self):
        self.data = {} if self.workload == "g-set" else PNCounter()
        self.tasks = {"look": self.looking(), "tell": self.telling()}
        self.fresh = False
        for name, task in self.tasks.items():
            self.set_timer(name, next(task))

    def on_timer(self, name):
        after = next(self.tasks[name])
        if after is not None:
            self.set_timer(name, after)

    def looking(self):
        """Once a second ask somebody, in a random order of all."""
        yield self.random.random()
        while True:
            for peer in self.random.sample(self.peers, len(self.peers)):
                self.send(peer, {"type": "look", "have": self.all()})
                yield 1.0
            if not self.peers:
                yield 1.0

    def telling(self):
        """When there was news: tell eleven others, in five groups."""
        yield 0.02
        while True:
            if not self.fresh:
                yield None
                continue
            self.fresh = False
            chosen = self.random.sample(self.peers, min(11, len(self.peers)))
            for start in (0, 5, 8):
                for peer in chosen[start:start + (5 if start == 0 else 3)]:
                    self.send(peer, {"type": "have", "have": self.all()})
                yield 0.04

    def on_message(self, src, body):
        kind = body["type"]
        if kind == "read":
            self.reply(body, {"type": "read_ok", "value": list(self.data) if self.workload == "g-set" else self.data.value()})
        elif kind == "add":
            if "element" in body:
                self.data[body["element"]] = True
            else:
                (self.data.increment if body["delta"] > 0 else self.data.decrement)(self.id, abs(body["delta"]))
            self.reply(body, {"type": "add_ok"})
            self.woken()
        else:
            before = self.size()
            if self.workload == "g-set":
                self.data.update(dict.fromkeys(body["have"], True))
                lacks = len(self.data) > len(body["have"])
            else:
                self.data.merge(PNCounter.from_json(body["have"]))
                lacks = self.size() > sum(value for _, value in body["have"])
            if self.size() > before:
                self.woken()
            if kind == "look" and lacks:
                self.send(src, {"type": "have", "have": self.all()})

    def woken(self):
        if not self.fresh:
            self.fresh = True
            self.set_timer("tell", 0.0)

    def size(self):
        return len(self.data) if self.workload == "g-set" else sum(self.data.cells.values())

    def all(self):
        return list(self.data) if self.workload == "g-set" else self.data.to_json()
