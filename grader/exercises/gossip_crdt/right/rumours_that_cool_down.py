"""Rumours of single items that cool down when three say that they knew; a hash a second finds what was missed."""

import hashlib
import json
from collections import Counter

from grader.nodes import Node

CALM = 1.03
ROUND = 0.12  # longer than there and back
ENOUGH = 3


def plain(value):
    return json.loads(json.dumps(value))


class GCounter:
    def __init__(self):
        self.of = Counter()

    def increment(self, node, amount=1):
        self.of[node] += amount

    def merge(self, other):
        self.of |= other.of

    def value(self):
        return sum(self.of.values())

    def to_json(self):
        return sorted([node, count] for node, count in self.of.items())

    @classmethod
    def from_json(cls, told):
        made = cls()
        made.of = Counter({node: count for node, count in told})
        return made


class PNCounter:
    def __init__(self):
        self.added, self.taken = Counter(), Counter()

    def increment(self, node, amount=1):
        self.added[node] += amount

    def decrement(self, node, amount=1):
        self.taken[node] += amount

    def merge(self, other):
        self.added |= other.added
        self.taken |= other.taken

    def value(self):
        return sum(self.added.values()) - sum(self.taken.values())

    def to_json(self):
        return [dict(self.added), dict(self.taken)]

    @classmethod
    def from_json(cls, told):
        made = cls()
        made.added, made.taken = Counter(told[0]), Counter(told[1])
        return made


class LWWRegister:
    def __init__(self):
        self.timestamp = self.node = self.text = None

    def offer(self, timestamp, node, text):
        if self.text is None or (timestamp, node, text) > (self.timestamp, self.node, self.text):
            self.timestamp, self.node, self.text = timestamp, node, text

    def set(self, value, timestamp, node):
        self.offer(timestamp, node, json.dumps(value))

    def merge(self, other):
        if other.text is not None:
            self.offer(other.timestamp, other.node, other.text)

    def value(self):
        return None if self.text is None else json.loads(self.text)

    def to_json(self):
        return [self.timestamp, self.node, self.text]

    @classmethod
    def from_json(cls, told):
        made = cls()
        made.timestamp, made.node, made.text = told
        return made


class ORSet:
    """Without tombstones: `seen` says how many adds of each node are known; one that is known and not here is removed."""

    def __init__(self):
        self.dots = {}  # (node, number) -> element
        self.seen = {}  # node -> number of the last add known

    def add(self, element, node):
        self.seen[node] = self.seen.get(node, 0) + 1
        self.dots[node, self.seen[node]] = element

    def remove(self, element):
        self.dots = {dot: kept for dot, kept in self.dots.items() if kept != element}

    def merge(self, other):
        mine = {
            dot: element
            for dot, element in self.dots.items()
            if dot in other.dots or dot[1] > other.seen.get(dot[0], 0)
        }
        theirs = {dot: element for dot, element in other.dots.items() if dot[1] > self.seen.get(dot[0], 0)}
        self.dots = {**mine, **theirs}
        for node, number in other.seen.items():
            self.seen[node] = max(number, self.seen.get(node, 0))

    def value(self):
        return set(self.dots.values())

    def to_json(self):
        return {
            "dots": [[node, number, element] for (node, number), element in sorted(self.dots.items())],
            "seen": dict(self.seen),
        }

    @classmethod
    def from_json(cls, told):
        made = cls()
        made.dots = {(node, number): element for node, number, element in told["dots"]}
        made.seen = dict(told["seen"])
        return made


class GossipStore(Node):
    """What is known is a set of items: an element under its text, or a node's [added, taken] under its id."""

    def on_start(self):
        self.items = {}
        self.hot = {}  # key -> how many have said that they knew it
        self.ticking = False
        ring = sorted((self.id, *self.peers), key=lambda node: (len(node), node))
        self.next = ring[(ring.index(self.id) + 1) % len(ring)]
        self.order = self.random.sample(self.peers, len(self.peers))
        self.cursor = 0
        if self.peers:
            self.set_timer("calm", self.random.uniform(0, CALM))

    def value(self):
        if self.workload == "g-set":
            return list(self.items.values())
        return sum(added - taken for added, taken in self.items.values())

    def mark(self):
        return hashlib.md5(json.dumps(sorted(self.items.items(), key=lambda item: item[0])).encode()).hexdigest()

    def absorb(self, pairs):
        """Learn items; the keys of those that were new."""
        changed = []
        for key, item in pairs:
            old = self.items.get(key)
            if old is not None:
                item = old if self.workload == "g-set" else [max(old[0], item[0]), max(old[1], item[1])]
            if old is None or item != old:
                self.items[key] = item
                changed.append(key)
        return changed

    def on_message(self, src, body):
        kind = body["type"]
        if kind == "read":
            self.reply(body, {"type": "read_ok", "value": self.value()})
        elif kind == "add":
            self.add(body)
            self.reply(body, {"type": "add_ok"})
        elif kind == "push":
            changed = self.absorb(body["items"])
            knew = [pair for pair in body["items"] if pair[0] not in changed]
            if knew:
                self.send(src, {"type": "knew", "items": knew})
            self.rumour(changed)
        elif kind == "knew":
            for key, item in body["items"]:
                if key in self.hot and self.items[key] == item:
                    self.hot[key] += 1
                    if self.hot[key] >= ENOUGH:
                        del self.hot[key]
        elif kind == "digest":
            if body["mark"] != self.mark():
                self.send(src, {"type": "full", "items": list(map(list, self.items.items())), "answer": True})
        elif kind == "full":
            theirs = dict(body["items"])
            self.rumour(self.absorb(body["items"]))
            lacking = [[key, item] for key, item in self.items.items() if theirs.get(key) != item]
            if body["answer"] and lacking:
                self.send(src, {"type": "full", "items": lacking, "answer": False})

    def add(self, body):
        if self.workload == "g-set":
            self.rumour(self.absorb([[json.dumps(body["element"], sort_keys=True), body["element"]]]))
        else:
            added, taken = self.items.get(self.id, [0, 0])
            delta = body["delta"]
            self.rumour(self.absorb([[self.id, [added + max(delta, 0), taken + max(-delta, 0)]]]))

    def rumour(self, keys):
        if not keys or not self.peers:
            return
        for key in keys:
            self.hot[key] = 0
        self.push(self.next, keys)
        self.push(self.turn(), keys)
        if not self.ticking:
            self.ticking = True
            self.set_timer("round", ROUND)

    def turn(self):
        self.cursor = (self.cursor + 1) % len(self.order)
        return self.order[self.cursor]

    def push(self, peer, keys):
        self.send(peer, {"type": "push", "items": [[key, self.items[key]] for key in keys]})

    def on_timer(self, name):
        if name == "calm":
            self.send(self.random.choice(self.peers), {"type": "digest", "mark": self.mark()})
            self.set_timer("calm", CALM)
        elif self.hot:
            self.push(self.turn(), list(self.hot))
            self.set_timer("round", ROUND)
        else:
            self.ticking = False
