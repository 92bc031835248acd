"""News goes along a hypercube as deltas; once a second digests are compared. Tags of ORSet are random."""

import hashlib
import json
import uuid

from grader.nodes import Node


class GCounter:
    def __init__(self, pairs=()):
        self._c = dict(pairs)

    def increment(self, node, amount=1):
        self._c.update({node: self._c.get(node, 0) + amount})

    def merge(self, other):
        self._c = {n: max(self._c.get(n, 0), other._c.get(n, 0)) for n in {*self._c, *other._c}}

    def value(self):
        return sum(self._c[n] for n in self._c)

    def to_json(self):
        return [[n, c] for n, c in self._c.items()]

    @classmethod
    def from_json(cls, told):
        return cls((n, c) for n, c in told)


class PNCounter(GCounter):
    """Two kinds of names in one counter that only grows."""

    def increment(self, node, amount=1):
        super().increment("+" + node, amount)

    def decrement(self, node, amount=1):
        super().increment("-" + node, amount)

    def value(self):
        return sum(c if n[0] == "+" else -c for n, c in self._c.items())


class LWWRegister:
    def __init__(self):
        self._all = []

    def set(self, value, timestamp, node):
        self._all = [max([*self._all, [timestamp, node, value]], key=lambda w: w[:2])]

    def merge(self, other):
        for timestamp, node, value in other._all:
            self.set(value, timestamp, node)

    def value(self):
        return self._all[0][2] if self._all else None

    def to_json(self):
        return [list(w) for w in self._all]

    @classmethod
    def from_json(cls, told):
        found = cls()
        found._all = [list(w) for w in told]
        return found


class ORSet:
    def __init__(self):
        self._adds, self._gone = {}, set()

    def add(self, element, node):
        self._adds.setdefault((type(element).__name__, element), set()).add(uuid.uuid4().hex)

    def remove(self, element):
        self._gone |= self._adds.get((type(element).__name__, element), set())

    def merge(self, other):
        for key, tags in other._adds.items():
            self._adds[key] = self._adds.get(key, set()) | tags
        self._gone = self._gone | other._gone

    def value(self):
        return [element for (_, element), tags in self._adds.items() if tags - self._gone]

    def to_json(self):
        return {"adds": [[*key, sorted(tags)] for key, tags in self._adds.items()], "gone": sorted(self._gone)}

    @classmethod
    def from_json(cls, told):
        found = cls()
        found._adds = {(kind, element): set(tags) for kind, element, tags in told["adds"]}
        found._gone = set(told["gone"])
        return found


class GossipStore(Node):
    def on_start(self):
        self.facts = {}  # key -> value; a fact never changes, but for a greater number
        everyone = sorted((self.id, *self.peers), key=lambda name: (len(name), name))
        mine = everyone.index(self.id)
        # in a cube with holes, who stands for a corner that is not there is its neighbour's neighbour
        self.corners, bit = [], 1
        while bit < len(everyone):
            other = mine ^ bit
            self.corners.append(everyone[other if other < len(everyone) else (mine + bit) % len(everyone)])
            bit *= 2
        self.everyone, self.turn = everyone, mine
        self.set_timer("compare", 0.5 + self.random.random() / 2)

    def on_message(self, src, body):
        handler = {"read": self.read, "add": self.add, "facts": self.hear, "digest": self.compare, "all": self.hear_all}
        handler[body["type"]](src, body)

    def read(self, src, body):
        if self.workload == "g-set":
            value = [json.loads(key) for key in self.facts]
        else:
            value = sum(number if key[0] == "+" else -number for key, number in self.facts.items())
        self.reply(body, {"type": "read_ok", "value": value})

    def add(self, src, body):
        if "element" in body:
            new = {json.dumps(body["element"]): 1}
        else:
            key = ("+" if body["delta"] >= 0 else "-") + self.id
            new = {key: self.facts.get(key, 0) + abs(body["delta"])}
        self.learn(new)
        self.reply(body, {"type": "add_ok"})

    def learn(self, facts, but=None):
        new = {key: number for key, number in facts.items() if number > self.facts.get(key, -1)}
        if new:
            self.facts.update(new)
            for peer in dict.fromkeys(self.corners):
                self.send(peer, {"type": "facts", "facts": new})

    def hear(self, src, body):
        self.learn(body["facts"])

    def hear_all(self, src, body):
        self.learn(body["facts"])
        if body["answer"] and any(number > body["facts"].get(key, -1) for key, number in self.facts.items()):
            self.send(src, {"type": "all", "facts": self.facts, "answer": False})

    def digest(self):
        return hashlib.blake2b(json.dumps(sorted(self.facts.items())).encode(), digest_size=8).hexdigest()

    def compare(self, src, body):
        if body["digest"] != self.digest():
            self.send(src, {"type": "all", "facts": self.facts, "answer": True})

    def on_timer(self, name):
        self.set_timer("compare", 1)
        others = [peer for peer in self.everyone if peer != self.id]
        if others:
            self.send(self.random.choice(others), {"type": "digest", "digest": self.digest()})
