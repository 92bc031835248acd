"""A tree of three children each carries news; every link is told until it confirms. Links that are silent are tried."""

from functools import total_ordering

from grader.nodes import Node


class GCounter(dict):
    def increment(self, node, amount=1):
        self[node] = self.get(node, 0) + amount

    def merge(self, other):
        for node in other:
            if other[node] > self.get(node, 0):
                self[node] = other[node]

    def value(self):
        return sum(self.values())

    def to_json(self):
        return self

    @classmethod
    def from_json(cls, told):
        return cls(told)


class PNCounter:
    def __init__(self, both=None):
        self.both = both or {"p": GCounter(), "n": GCounter()}

    def increment(self, node, amount=1):
        self.both["p"].increment(node, amount)

    def decrement(self, node, amount=1):
        self.both["n"].increment(node, amount)

    def merge(self, other):
        for sign, counter in other.both.items():
            self.both[sign].merge(counter)

    def value(self):
        return self.both["p"].value() - self.both["n"].value()

    def to_json(self):
        return self.both

    @classmethod
    def from_json(cls, told):
        return cls({sign: GCounter.from_json(counts) for sign, counts in told.items()})


@total_ordering
class Stamp:
    def __init__(self, time, node):
        self.time, self.node = time, node

    def __eq__(self, other):
        return (self.time, self.node) == (other.time, other.node)

    def __lt__(self, other):
        return (self.time, self.node) < (other.time, other.node)


class LWWRegister:
    stamp, content = None, None

    def set(self, value, timestamp, node):
        self._offer(Stamp(timestamp, node), value)

    def _offer(self, stamp, value):
        if stamp is not None and (self.stamp is None or self.stamp < stamp):
            self.stamp, self.content = stamp, value

    def merge(self, other):
        self._offer(other.stamp, other.content)

    def value(self):
        return self.content

    def to_json(self):
        return {} if self.stamp is None else {"t": self.stamp.time, "n": self.stamp.node, "v": self.content}

    @classmethod
    def from_json(cls, told):
        register = cls()
        if told:
            register.set(told["v"], told["t"], told["n"])
        return register


class ORSet:
    """A log of adds and removes: [kind, tag, element]."""

    def __init__(self, log=()):
        self.log = list(log)

    def add(self, element, node):
        mine = sum(1 for kind, tag, _ in self.log if kind == "add" and tag[0] == node)
        self.log.append(["add", [node, mine + 1], element])

    def remove(self, element):
        tags = [tag for kind, tag, other in self.log if kind == "add" and other == element]
        self.log += [entry for tag in tags if (entry := ["remove", tag, None]) not in self.log]

    def merge(self, other):
        self.log += [entry for entry in list(other.log) if entry not in self.log]

    def value(self):
        gone = [tag for kind, tag, _ in self.log if kind == "remove"]
        return {element for kind, tag, element in self.log if kind == "add" and tag not in gone}

    def to_json(self):
        return self.log

    @classmethod
    def from_json(cls, told):
        return cls([list(entry) for entry in told])


class GossipStore(Node):
    def on_start(self):
        self.facts = []  # [element] of a g-set, [node, sequence number, delta] of a counter: each is new once
        names = sorted([self.id, *self.peers])
        me = names.index(self.id)
        around = [(me - 1) // 3 if me else -1, 3 * me + 1, 3 * me + 2, 3 * me + 3]
        self.links = [names[place] for place in around if 0 <= place < len(names)]
        self.confirmed = {peer: 0 for peer in self.links}  # how many of my facts the neighbour has
        self.number = 0
        self.set_timer("again", 0.2)
        self.set_timer("probe", self.random.random())

    def on_message(self, src, body):
        if body["type"] == "read":
            kinds = {"g-set": lambda: [fact[0] for fact in self.facts], "pn-counter": lambda: sum(f[2] for f in self.facts)}
            self.reply(body, {"type": "read_ok", "value": kinds[self.workload]()})
        elif body["type"] == "add":
            self.number += 1
            self.take([[body["element"]] if "element" in body else [self.id, self.number, body["delta"]]], None)
            self.reply(body, {"type": "add_ok"})
        elif body["type"] == "rest":
            self.take(body["facts"], src)
        elif body["type"] == "facts":
            self.take(body["facts"], src)
            if body["upto"] is not None:
                self.send(src, {"type": "confirm", "upto": body["upto"]})
            else:
                mine = [fact for fact in self.facts if fact not in body["facts"]]
                if mine:
                    self.send(src, {"type": "rest", "facts": mine})
        elif body["type"] == "confirm":
            self.confirmed[src] = max(self.confirmed[src], body["upto"])

    def take(self, facts, src):
        new = [fact for fact in facts if fact not in self.facts]
        if not new:
            return
        self.facts += new
        for peer in self.links:
            if peer != src or self.confirmed[peer] < len(self.facts) - len(new):
                self.tell(peer)
            else:
                self.confirmed[peer] = len(self.facts)

    def tell(self, peer):
        self.send(peer, {"type": "facts", "facts": self.facts[self.confirmed[peer]:], "upto": len(self.facts)})

    def on_timer(self, name):
        if name == "again":
            for peer in self.links:
                if self.confirmed[peer] < len(self.facts):
                    self.tell(peer)
            self.set_timer("again", 0.2)
        else:
            peer = self.random.choice(self.peers) if self.peers else None
            if peer:
                self.send(peer, {"type": "facts", "facts": self.facts, "upto": None})
            self.set_timer("probe", 1.0)
