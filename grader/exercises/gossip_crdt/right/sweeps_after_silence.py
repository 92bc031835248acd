"""Whole states to the neighbours 1, 2, 4, ... ahead at any news; silence from those behind starts a sweep over all."""

import json

from grader.nodes import Node

CALM = 1.03  # seconds between two states sent when there is no news
LATE = 0.6  # seconds after which all neighbours behind should have told the same news
SWEEP = 0.06


def copied(value):
    return json.loads(json.dumps(value))


class GCounter:
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
        made = cls()
        made.counts = dict(told)
        return made


class PNCounter:
    def __init__(self):
        self.plus, self.minus = GCounter(), GCounter()

    def increment(self, node, amount=1):
        self.plus.increment(node, amount)

    def decrement(self, node, amount=1):
        self.minus.increment(node, amount)

    def merge(self, other):
        self.plus.merge(other.plus)
        self.minus.merge(other.minus)

    def value(self):
        return self.plus.value() - self.minus.value()

    def to_json(self):
        return {"plus": self.plus.to_json(), "minus": self.minus.to_json()}

    @classmethod
    def from_json(cls, told):
        made = cls()
        made.plus, made.minus = GCounter.from_json(told["plus"]), GCounter.from_json(told["minus"])
        return made


class LWWRegister:
    def __init__(self):
        self.state = None  # [timestamp, node, value]

    def set(self, value, timestamp, node):
        self.take([timestamp, node, copied(value)])

    def take(self, state):
        def order(one):
            return one[0], one[1], json.dumps(one[2], sort_keys=True)

        if self.state is None or order(state) > order(self.state):
            self.state = state

    def merge(self, other):
        if other.state is not None:
            self.take(copied(other.state))

    def value(self):
        return None if self.state is None else copied(self.state[2])

    def to_json(self):
        return copied(self.state)

    @classmethod
    def from_json(cls, told):
        made = cls()
        made.state = copied(told)
        return made


class ORSet:
    def __init__(self):
        self.tags = {}  # element -> its tags (node, number) that are not removed
        self.gone = set()  # tags that were removed
        self.given = {}  # node -> number of its last tag

    def add(self, element, node):
        self.given[node] = self.given.get(node, 0) + 1
        self.tags.setdefault(element, set()).add((node, self.given[node]))

    def remove(self, element):
        self.gone |= self.tags.pop(element, set())

    def merge(self, other):
        self.gone |= other.gone
        for element, tags in other.tags.items():
            self.tags.setdefault(element, set()).update(tags)
        for element in list(self.tags):
            self.tags[element] -= self.gone
            if not self.tags[element]:
                del self.tags[element]
        for node, number in other.given.items():
            self.given[node] = max(number, self.given.get(node, 0))

    def value(self):
        return set(self.tags)

    def to_json(self):
        return {
            "tags": [[element, sorted(map(list, tags))] for element, tags in self.tags.items()],
            "gone": sorted(map(list, self.gone)),
            "given": dict(self.given),
        }

    @classmethod
    def from_json(cls, told):
        made = cls()
        made.tags = {element: {(node, number) for node, number in tags} for element, tags in told["tags"]}
        made.gone = {(node, number) for node, number in told["gone"]}
        made.given = dict(told["given"])
        return made


class GossipStore(Node):
    def on_start(self):
        ring = sorted((self.id, *self.peers), key=lambda node: (len(node), node))
        me, size = ring.index(self.id), len(ring)
        steps = [1 << power for power in range(size.bit_length()) if 1 << power < size]
        self.ahead = sorted({ring[(me + step) % size] for step in steps})
        self.behind = {ring[(me - step) % size] for step in steps}
        self.echoes = set()  # neighbours behind that have told all that is known here
        self.left = 0  # peers that a sweep has not been to
        self.cursor = self.random.randrange(size)
        self.elements = {}
        self.counter = PNCounter()
        if self.peers:
            self.set_timer("calm", self.random.uniform(0, CALM))

    def state(self):
        if self.workload == "g-set":
            return [self.elements[name] for name in sorted(self.elements)]
        return self.counter.to_json()

    def learn(self, state):
        before = self.state()
        if self.workload == "g-set":
            for element in state:
                self.elements.setdefault(json.dumps(element, sort_keys=True), element)
        else:
            self.counter.merge(PNCounter.from_json(state))
        return self.state() != before

    def on_message(self, src, body):
        kind = body["type"]
        if kind == "read":
            value = self.state() if self.workload == "g-set" else self.counter.value()
            self.reply(body, {"type": "read_ok", "value": value})
        elif kind == "add":
            self.reply(body, {"type": "add_ok"})
            if self.add(body):
                self.news()
        else:
            if self.learn(body["state"]):
                self.news()
            same = self.state() == body["state"]
            if same and src in self.behind:
                self.echoes.add(src)
            if kind == "calm" and not same:
                self.send(src, {"type": "mine", "state": self.state()})

    def add(self, body):
        if self.workload == "g-set":
            return self.learn([body["element"]])
        if body["delta"] >= 0:
            self.counter.increment(self.id, body["delta"])
        else:
            self.counter.decrement(self.id, -body["delta"])
        return True

    def news(self):
        for peer in self.ahead:
            self.send(peer, {"type": "news", "state": self.state()})
        if self.peers:
            self.echoes.clear()
            self.left = len(self.peers)
            self.set_timer("check", LATE)

    def on_timer(self, name):
        if name == "calm":
            self.send(self.random.choice(self.peers), {"type": "calm", "state": self.state()})
            self.set_timer("calm", CALM)
        elif self.echoes < self.behind and self.left:
            self.left -= 1
            self.cursor += 1
            self.send(self.peers[self.cursor % len(self.peers)], {"type": "calm", "state": self.state()})
            self.set_timer("check", SWEEP)
