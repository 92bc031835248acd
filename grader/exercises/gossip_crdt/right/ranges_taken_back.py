"""News goes down a tree over the ring, each with a range to cover; ranges of those who do not confirm are taken back."""

import hashlib
import json

from grader.nodes import Node

CALM = 1.03
LATE = 0.15  # longer than there and back


class GCounter:
    def __init__(self, counts=()):
        self._counts = dict(counts)

    def increment(self, node, amount=1):
        self._counts[node] = self._counts.get(node, 0) + amount

    def merge(self, other):
        nodes = {*self._counts, *other._counts}
        self._counts = {node: max(one._counts.get(node, 0) for one in (self, other)) for node in nodes}

    def value(self):
        return sum(self._counts.values())

    def to_json(self):
        return {"counts": sorted(map(list, self._counts.items()))}

    @classmethod
    def from_json(cls, told):
        return cls((node, count) for node, count in told["counts"])


class PNCounter:
    """One GCounter in which each node has two places."""

    def __init__(self):
        self._both = GCounter()

    def increment(self, node, amount=1):
        self._both.increment("+" + node, amount)

    def decrement(self, node, amount=1):
        self._both.increment("-" + node, amount)

    def merge(self, other):
        self._both.merge(other._both)

    def value(self):
        return sum(count if place[0] == "+" else -count for place, count in self._both._counts.items())

    def to_json(self):
        return self._both.to_json()

    @classmethod
    def from_json(cls, told):
        made = cls()
        made._both = GCounter.from_json(told)
        return made


class LWWRegister:
    def __init__(self):
        self._writes = []  # one at most: (timestamp, node, text of the value)

    def set(self, value, timestamp, node):
        self._writes = [max([*self._writes, (timestamp, node, json.dumps(value, sort_keys=True))])]

    def merge(self, other):
        self._writes = [max([*self._writes, *other._writes])] if self._writes or other._writes else []

    def value(self):
        return json.loads(self._writes[0][2]) if self._writes else None

    def to_json(self):
        return list(map(list, self._writes))

    @classmethod
    def from_json(cls, told):
        made = cls()
        made._writes = [tuple(write) for write in told]
        return made


class ORSet:
    """Every add for ever, with its element and whether it lives; dead is dead."""

    def __init__(self):
        self._adds = {}  # (node, number) -> (element, lives)

    def add(self, element, node):
        number = max((number for one, number in self._adds if one == node), default=0) + 1
        self._adds[node, number] = (element, True)

    def remove(self, element):
        for tag, (kept, _) in self._adds.items():
            if kept == element:
                self._adds[tag] = (kept, False)

    def merge(self, other):
        for tag, (element, lives) in other._adds.items():
            self._adds[tag] = (element, lives and self._adds.get(tag, (element, True))[1])

    def value(self):
        return {element for element, lives in self._adds.values() if lives}

    def to_json(self):
        return [[node, number, *self._adds[node, number]] for node, number in sorted(self._adds)]

    @classmethod
    def from_json(cls, told):
        made = cls()
        made._adds = {(node, number): (element, lives) for node, number, element, lives in told}
        return made


class GossipStore(Node):
    def on_start(self):
        self.items = {}  # element's text -> element, or node -> [plus, minus]
        self.mark = 0  # of all items, whatever the order in which they came
        self.ring = sorted((self.id, *self.peers), key=lambda node: (len(node), node))
        self.place = self.ring.index(self.id)
        self.count = 0
        self.open = {}  # timer -> (items, start, length, tries): what was handed to somebody
        if self.peers:
            self.set_timer("calm", self.random.uniform(0, CALM))

    def on_message(self, src, body):
        kind = body["type"]
        if kind == "read":
            if self.workload == "g-set":
                value = list(self.items.values())
            else:
                value = sum(plus - minus for plus, minus in self.items.values())
            self.reply(body, {"type": "read_ok", "value": value})
        elif kind == "add":
            if self.workload == "g-set":
                item = [json.dumps(body["element"], sort_keys=True), body["element"]]
            else:
                plus, minus = self.items.get(self.id, [0, 0])
                item = [self.id, [plus + max(body["delta"], 0), minus + max(-body["delta"], 0)]]
            self.reply(body, {"type": "add_ok"})
            self.tell_all(self.learn([item]))
        elif kind == "spread":
            self.send(src, {"type": "got", "ref": body["ref"]})
            self.learn(body["items"])
            self.cover(body["items"], body["start"], body["length"])
        elif kind == "got":
            if self.open.pop(body["ref"], None):
                self.cancel_timer(body["ref"])
        elif kind == "digest":
            if body["mark"] != self.mark:
                self.send(src, {"type": "all", "items": list(map(list, self.items.items())), "more": True})
        elif kind == "all":
            theirs = dict(body["items"])
            self.tell_all(self.learn(body["items"]))
            better = [[key, item] for key, item in self.items.items() if theirs.get(key) != item]
            if body["more"] and better:
                self.send(src, {"type": "all", "items": better, "more": False})

    def on_timer(self, name):
        if name == "calm":
            self.send(self.random.choice(self.peers), {"type": "digest", "mark": self.mark})
            self.set_timer("calm", CALM)
        elif name in self.open:
            items, start, length, tries = self.open.pop(name)
            self.cover(items, start + 1, length - 1)
            if tries < 2:
                self.hand(items, start, 1, tries + 1)

    # items

    def digest(self, key, item):
        return int.from_bytes(hashlib.sha1(json.dumps([key, item]).encode()).digest()[:6], "big")

    def learn(self, pairs):
        """The items that were new, as they are now."""
        new = []
        for key, item in pairs:
            old = self.items.get(key)
            if old is not None:
                item = old if self.workload == "g-set" else list(map(max, old, item))
            if old is None or item != old:
                if old is not None:
                    self.mark ^= self.digest(key, old)
                self.mark ^= self.digest(key, item)
                self.items[key] = item
                new.append([key, item])
        return new

    # the tree: whoever gets a range [start, start + length) of the ring sees to it that all in it are told

    def tell_all(self, items):
        if items:
            self.cover(items, self.place + 1, len(self.peers))

    def cover(self, items, start, length):
        while length > 0:
            half = (length + 1) // 2
            self.hand(items, start, half, 0)
            start, length = start + half, length - half

    def hand(self, items, start, length, tries):
        self.count += 1
        ref = f"ref {self.count}"
        self.open[ref] = (items, start, length, tries)
        first = self.ring[start % len(self.ring)]
        self.send(first, {"type": "spread", "items": items, "start": start + 1, "length": length - 1, "ref": ref})
        self.set_timer(ref, LATE)
