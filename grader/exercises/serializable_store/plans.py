"""Who sends which transactions when, without faults: runs as data (see `fates`).

Every value is appended once in a run. The client `zoe` reads everything in the end, at one node after another.
What happens in a run does not depend on how the names of keys end.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from string import ascii_lowercase
from typing import Any
from zlib import crc32

from grader.exercises.common.nodes import names, skewed
from grader.nodes.clients import Ask
from grader.nodes.network import Network
from grader.nodes.plan import Mishap, Plan
from grader.nodes.sim import Member

FAST = Network(0.001, 0.001)  # of clients and of a node to itself: without chance, so that less of a run goes as before
EQUAL = Network(0.01, 0.01)
HOP = 0.01  # seconds, of every message in EQUAL
LAST = "zoe"
WORDS = ("x", "y", "cart", "stock", "a long key / 1", "ü", "balance", "7", "seats 7")


def owner(key: Any, nodes: Sequence[str]) -> str:
    """The node on which a key lives."""
    return sorted(nodes)[crc32(str(key).encode()) % len(nodes)]


@dataclass
class Drawn:
    """Draws keys and values of one run, none twice. `rng` decides all but how names end, which `seed` does."""

    rng: random.Random
    nodes: Sequence[str]
    seed: int = 0
    keys: list[Any] = field(default_factory=list)
    _value: int = 0

    def key(self, of: str) -> Any:
        """A key, string or integer, that lives on this node. Neither its place among the other keys in alphabetical order
        nor another node, which would own it by repr(), depends on how it ends."""
        other = self.rng.choice([node for node in self.nodes if node != of])
        begin = ""
        while not begin or any(str(key).startswith(begin) for key in self.keys):
            word = self.rng.choice(WORDS) if self.rng.random() < 0.7 else ""
            begin = word + self.rng.choice("12345689")  # no 7: no string and no integer begin in the same way
        ends = random.Random(f"{self.seed} {len(self.keys)}")
        while True:
            name = f"{begin}{ends.randrange(1000)}"
            if owner(name, self.nodes) == of and (not word or owner(repr(name), self.nodes) == other):
                self.keys.append(name if word else int(name))
                return self.keys[-1]

    def named(self, text: str, of: str) -> str:
        """A key that begins with this text and lives on this node: x, xa, xb and so on."""
        ends = ("", *ascii_lowercase, *(a + b for a in ascii_lowercase for b in ascii_lowercase))
        key: str = next(
            text + end for end in ends if owner(text + end, self.nodes) == of and text + end not in self.keys
        )
        self.keys.append(key)
        return key

    def append(self, key: Any) -> list[Any]:
        self._value += 1
        return ["append", key, self._value]

    def finish(self, at: float) -> tuple[Ask, ...]:
        """A read of everything at each node."""
        ops = [read(key) for key in self.keys]
        return tuple(ask(node, *ops, at=at) for node in self.nodes)


def read(key: Any) -> list[Any]:
    return ["r", key, None]


def ask(node: str, *ops: list[Any], at: float = 0.0, after: float = 0.001) -> Ask:
    return Ask(node, {"type": "txn", "txn": [list(op) for op in ops]}, after, at)


def members(rng: random.Random, nodes: Sequence[str]) -> tuple[Member, ...]:
    """These nodes, with clocks of their own."""
    return skewed((Member(name, "TxnStore") for name in nodes), rng, -100)


def plan(
    drawn: Drawn, asks: Mapping[str, tuple[Ask, ...]], end: float, label: str,
    mishaps: tuple[Mishap, ...] = (), network: Network = FAST, healed: float | None = None,
) -> Plan:  # fmt: skip
    """A run in which zoe reads everything from `end` on."""
    asks = {**asks, LAST: drawn.finish(end)}
    until = end + 5.5 * len(drawn.nodes)
    nodes, chance = members(drawn.rng, drawn.nodes), drawn.rng.randrange(2**31)
    return Plan(nodes, asks, mishaps, network, chance, healed=healed, until=until, label=label)


# ---- one after another


def works(rng: random.Random, shape: tuple[int, str], seed: int) -> Plan:
    """One transaction after another, by whatever node, each as soon as the one before is answered."""
    count, delays = shape
    nodes = names(count)
    drawn = Drawn(rng, nodes, seed)
    x, y, *more = [drawn.key(rng.choice(nodes)) for _ in range(4)]
    append = drawn.append
    found = [
        (append(x), append(y)),
        (read(x), read(y)),
        (),
        (read(x), append(x), read(x), append(x), read(x)),
        (append(y), append(y)),
        (read(y), read(more[0])),
        tuple(append(key) for key in drawn.keys),
        tuple(read(key) for key in drawn.keys),
    ]
    for _ in range(8):
        some = [rng.choice(drawn.keys) for _ in range(rng.randint(1, 4))]
        found.append(tuple(append(key) if rng.random() < 0.5 else read(key) for key in some))
    asks = tuple(ask(rng.choice(nodes), *ops, at=1.0) for ops in found)
    slow = sorted(rng.sample(nodes, 2))
    label = f"No faults; messages {'between ' + ' and '.join(slow) + ' take 49 ms, others 2 ms' if delays else 'take 1 to 50 ms'}"
    return plan(drawn, {"alice": asks}, 35.0, label, network=FAST if delays else Network())


def side_by_side(rng: random.Random, count: int, seed: int) -> Plan:
    """Four clients with keys of their own at the same time; then readers of all of them at the same time."""
    nodes = names(count)
    drawn = Drawn(rng, nodes, seed)
    asks: dict[str, tuple[Ask, ...]] = {}
    clients = ("alice", "bob", "carol", "dave")
    for client in clients:
        keys = [drawn.key(rng.choice(nodes)) for _ in range(2)]
        found = []
        for number in range(4):
            ops = [drawn.append(key) if rng.random() < 0.6 else read(key) for key in rng.sample(keys, 2)]
            found.append(ask(rng.choice(nodes), *ops, at=1 + 3 * number + rng.uniform(0, 0.03)))
        asks[client] = tuple(found)
    for client in clients:
        late = [
            ask(rng.choice(nodes), *(read(key) for key in rng.sample(drawn.keys, 4)), at=at + rng.uniform(0, 0.02))
            for at in (15.0, 18.0)
        ]
        asks[client] = (*asks[client], *late)
    label = "No faults; messages take 1 to 50 ms; clients append to keys of their own, then all of them only read"
    return plan(drawn, asks, 22.0, label, network=Network())


def lone_reads(rng: random.Random, count: int, seed: int) -> Plan:
    """Reads of one to all keys at every node, seconds after the last append; the last of them meet others. First the one
    node is ahead, then the other: who gives way may go by clocks."""
    nodes = names(count)
    drawn = Drawn(rng, nodes, seed)
    keys = [drawn.key(node) for node in nodes]
    more = [drawn.key(rng.choice(nodes)) for _ in range(2)]
    asks = [ask(rng.choice(nodes), *(drawn.append(key) for key in keys), at=1.0 + 2 * number) for number in range(2)]
    counts = [count, *(rng.randint(1, count) for _ in nodes[1:])]
    for number, node in enumerate(nodes):
        some = rng.sample(keys, counts[number]) + more[: rng.randint(0, 2)]
        asks.append(ask(node, *map(read, some), at=6.0 + 1.5 * number))
    # two that read the same keys do not stand in each other's way
    last, beside = 6.0 + 1.5 * count, []
    for at, (mine, others) in ((last, (0.0, 0.012)), (last + 1.5, (0.012, 0.0))):
        asks.append(ask(nodes[0], *map(read, keys), at=at + mine))
        beside.append(ask(nodes[1], *map(read, keys), at=at + others))
    label = "No faults; every message takes 10 ms"
    return plan(drawn, {"alice": tuple(asks), "bob": tuple(beside)}, last + 4.5, label, network=EQUAL)


# ---- at the same time


OFFSETS = ((-9, -3, 0, 2), (5, 9, 15, 25), (38, 42, 55, 70), (80, 95, 110))  # ms between two that meet


def crossing(rng: random.Random, shape: tuple[str, str, bool, tuple[int, ...]], seed: int) -> Plan:
    """Two transactions on the same two keys, several times on new keys, a little more apart each time. `where`: both at
    nodes that own nothing ("apart"), or at the owners ("at home"); one of them is far from the second owner."""
    what, where, turned, offsets = shape
    apart = where == "apart"
    nodes = names(4 if apart else 2)
    one, two = ("n3", "n4") if apart else ("n1", "n2")
    drawn = Drawn(rng, nodes, seed)
    found: dict[str, list[Ask]] = {"alice": [], "bob": [], "carol": []}
    for number, offset in enumerate(offsets):
        at = 1.0 + 2.6 * number
        x, y = drawn.named(f"x{number}", "n1"), drawn.named(f"y{number}", "n2")
        first, second = _pair(drawn, what, x, y)
        if rng.random() < 0.5:
            first = list(reversed(first))
        if what == "lost update" and number % 2:  # what is appended to may be read last
            first, second = [*first, read(x)], [*second, read(x)]
        found["alice"].append(ask(one, *first, at=at))
        found["bob"].append(ask(two, *second, at=at + offset / 1000))
        found["carol"].append(ask(rng.choice(nodes), read(x), read(y), at=at + 2.2))
    far = ("n1" if turned else "n2", one) if apart else ("n1", "n2")
    label = f"No faults; messages between {' and '.join(sorted(far))} take {40 if apart else 20} ms, others 1 to 2 ms"
    return plan(drawn, {client: tuple(asks) for client, asks in found.items()}, 13.0, label)


def _pair(drawn: Drawn, what: str, x: str, y: str) -> tuple[list[Any], list[Any]]:
    append = drawn.append
    match what:
        case "reads":
            return [read(x), read(y)], [append(x), append(y)]
        case "skew":
            return [read(x), append(y)], [read(y), append(x)]
        case "lost update":
            return [read(x), append(x), read(y)], [read(x), append(x), append(y)]
        case "orders":
            return [append(x), append(y)], [append(y), append(x)]
    raise ValueError(what)


CROSSINGS = tuple(
    (what, where, turned, offsets)
    for what in ("reads", "skew", "lost update", "orders")
    for where, turned in (("apart", False), ("apart", True), ("at home", False))
    for offsets in OFFSETS
)


def forks(rng: random.Random, offsets: tuple[int, ...], seed: int) -> Plan:
    """Two writers of a key each, and two readers of both keys, each near to another owner."""
    nodes = names(4)
    drawn = Drawn(rng, nodes, seed)
    found: dict[str, list[Ask]] = {client: [] for client in ("alice", "bob", "carol", "dave")}
    for number, offset in enumerate(offsets):
        at = 1.0 + 2.6 * number
        x, y = drawn.named(f"x{number}", "n1"), drawn.named(f"y{number}", "n2")
        found["alice"].append(ask("n3", read(x), read(y), at=at))
        found["bob"].append(ask("n4", read(y), read(x), at=at + 0.001))
        found["carol"].append(ask("n1", drawn.append(x), at=at + offset / 1000))
        found["dave"].append(ask("n2", drawn.append(y), at=at + offset / 1000))
    label = "No faults; messages between n2 and n3 take 30 ms, messages between n1 and n4 take 30 ms, others 1 to 2 ms"
    return plan(drawn, {client: tuple(asks) for client, asks in found.items()}, 13.0, label)


def chain(rng: random.Random, offsets: tuple[int, ...], seed: int) -> Plan:
    """A reader of two keys who is far from the second owner, and meanwhile an append to the first key and, when that is
    answered, one to the second. The first owner has been busier before. Several times, a little later each time."""
    nodes = names(3)
    drawn = Drawn(rng, nodes, seed)
    found: dict[str, list[Ask]] = {"alice": [], "bob": []}
    for number, offset in enumerate(offsets):
        at = 1.0 + 2.6 * number
        x, y = drawn.named(f"x{number}", "n1"), drawn.named(f"y{number}", "n2")
        found["bob"] += [ask("n1", drawn.append(x), at=at - 0.7) for _ in range(3)]
        found["alice"].append(ask("n3", read(x), read(y), at=at))
        found["bob"] += [ask("n1", drawn.append(x), at=at + offset / 1000), ask("n2", drawn.append(y))]
    label = "No faults; messages between n2 and n3 take 40 ms, others 1 to 2 ms"
    return plan(drawn, {client: tuple(asks) for client, asks in found.items()}, 13.0, label)


def at_once(rng: random.Random, slow: bool, seed: int) -> Plan:
    """One client that appends by one node and reads by another as soon as it is answered. With `slow` the outcome is
    still on its way to an owner; otherwise all goes fast, and the same is read again within a few milliseconds."""
    nodes = names(3)
    drawn = Drawn(rng, nodes, seed)
    x, y = drawn.named("x", "n1"), drawn.named("y", "n2")
    found = []
    for number in range(8):
        ops = [drawn.append(x)] if number % 2 else [drawn.append(x), drawn.append(y)]
        found += [ask("n3", *ops, at=1.0), ask(("n1", "n2")[number // 2 % 2], read(x), read(y), at=1.0)]
    label = "No faults; messages between " + ("n1 and n3 take 45 ms, others 1 to 2 ms" if slow else "nodes take 1 ms")
    return plan(drawn, {"alice": tuple(found)}, 40.0, label)


def freed_by_another(rng: random.Random, seed: int) -> Plan:
    """While one transaction holds a key and waits for an owner that is far, a second one wants the key and another one;
    then a third wants it. Each time on new keys, a little later."""
    nodes = names(4)
    drawn = Drawn(rng, nodes, seed)
    found: dict[str, list[Ask]] = {client: [] for client in ("alice", "bob", "carol")}
    for number, offset in enumerate((6, 10, 16, 24, 34, 48)):
        at = 1.0 + 3 * number
        x, y, z = (drawn.named(f"{text}{number}", node) for text, node in (("x", "n1"), ("y", "n2"), ("z", "n3")))
        found["alice"].append(ask("n4", read(x), drawn.append(x), drawn.append(y), at=at))
        found["bob"].append(ask("n3", drawn.append(z), drawn.append(x), at=at + 0.004))
        found["carol"].append(ask("n1", read(x), drawn.append(x), at=at + offset / 1000))
    label = "No faults; messages between n2 and n4 take 45 ms, others 1 to 2 ms"
    return plan(drawn, {client: tuple(asks) for client, asks in found.items()}, 22.0, label)


def mixed(rng: random.Random, count: int, seed: int) -> Plan:
    """Four clients, three keys, again and again."""
    nodes = names(count)
    drawn = Drawn(rng, nodes, seed)
    keys = [drawn.key(rng.choice(nodes)) for _ in range(3)]
    asks: dict[str, tuple[Ask, ...]] = {}
    for client in ("alice", "bob", "carol", "dave"):
        found = []
        for number in range(9):
            some = [rng.choice(keys) for _ in range(rng.randint(1, 3))]
            ops = [drawn.append(key) if rng.random() < 0.5 else read(key) for key in some]
            found.append(ask(rng.choice(nodes), *ops, at=1 + 0.7 * number + rng.uniform(0, 0.1)))
        asks[client] = tuple(found)
    return plan(drawn, asks, 14.0, "No faults; messages take 1 to 50 ms", network=Network())


# ---- contention


SPAN = 2.0  # seconds, in which one transaction must be committed
CROWD = ("alice", "bob", "carol", "dave", "erin", "frank")


def crowd(rng: random.Random, shape: tuple[int, str, int], seed: int) -> Plan:
    """Six clients and three keys. All begin at one moment, each with two keys, so that every one of them can get one and
    wait for the next in a circle; then they go on, so many requests each."""
    count, what, rounds = shape
    nodes = names(count)
    drawn = Drawn(rng, nodes, seed)
    homes = [nodes[number % count] for number in range(3)]
    keys = [drawn.named(text, home) for text, home in zip(("x", "y", "z"), homes, strict=True)]
    asks: dict[str, tuple[Ask, ...]] = {}
    for place, client in enumerate(CROWD):
        ring = [keys[(place + step) % 3] for step in range(2)]
        first = ask(homes[place % 3], *([read(ring[0])] * (what == "reads")), *map(drawn.append, ring), at=1.0)
        found = [first]
        for number in range(1, rounds):
            some = rng.sample(keys, rng.randint(2, 3))
            ops = [drawn.append(key) if rng.random() < 0.7 else read(key) for key in some]
            found.append(ask(rng.choice(nodes), *ops, at=1 + 0.4 * number, after=rng.uniform(0.01, 0.2)))
        asks[client] = tuple(found)
    label = "No faults; 6 clients on 3 keys; messages between nodes take 25 ms, those of a node to itself 1 to 2 ms"
    return plan(drawn, asks, 1.0 + 5.2 * rounds, label)
