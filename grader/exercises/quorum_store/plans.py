"""Schedules for a quorum store: which quorums, who asks what, and what befalls nodes, as plans to be played."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from grader.exercises.common.nodes import names
from grader.nodes.clients import Ask
from grader.nodes.network import Network
from grader.nodes.plan import Mishap, Plan, random_mishaps
from grader.nodes.sim import Member, cluster
from grader.nodes.states import Model

Quorums = tuple[int, int]  # write_quorum, read_quorum

SAFE_3: tuple[Quorums, ...] = ((2, 2), (1, 3), (3, 1), (2, 3), (3, 2), (3, 3))  # all with W + R > N
SAFE_5: tuple[Quorums, ...] = ((3, 3), (2, 4), (4, 2), (5, 1), (1, 5))
STEADY = Network(0.010, 0.010)  # every message takes 10 ms
HOP = 0.010
CROWD = 12  # clients more that ask one node while it has no quorum
UNASKED = "reaches"  # in the labels of never_asked
NEVER = 1000.0  # after the end of every run
# one replica may answer a question twice: the network doubles it, or it is asked again before its answer is there
ANSWERED_TWICE = (Network(duplicate=1.0), Network(0.3, 0.35))
BEFORE_ACKS = 2.5 * HOP  # after a request came: first answers are back, what is stored is under way


def store(size: int, quorums: Quorums) -> tuple[Member, ...]:
    """A cluster of QuorumStores. Their clocks differ, by seconds that no message would take."""
    members = cluster(size, "QuorumStore", {"write_quorum": quorums[0], "read_quorum": quorums[1]})
    return tuple(
        replace(member, offset=7.0 * ((3 * number) % 5), rate=1 + 0.005 * (number % 3 - 1))
        for number, member in enumerate(members)
    )


def label(size: int, quorums: Quorums, what: str) -> str:
    return f"N = {size}, W = {quorums[0]}, R = {quorums[1]}: {what}"


def read(node: str, key: Any = "x", after: float = 0.0) -> Ask:
    return Ask(node, {"type": "read", "key": key}, after)


def write(node: str, value: Any, key: Any = "x", after: float = 0.0) -> Ask:
    return Ask(node, {"type": "write", "key": key, "value": value}, after)


def _plan(
    rng: random.Random, size: int, quorums: Quorums, what: str, asks: Any, mishaps: tuple[Mishap, ...] = (),
    network: Network | None = None, *, until: float, healed: float | None = None,
) -> Plan:  # fmt: skip
    """A run with a seed of its own, and the label that says what it is."""
    return Plan(
        store(size, quorums), asks, mishaps, network or Network(), rng.randrange(2**31), healed=healed, until=until,
        label=label(size, quorums, what),
    )  # fmt: skip


# ---- one client after another, no faults

VALUES: tuple[Any, ...] = (
    "", 0, False, [], {}, 0.5, -1, True, "naïve ☃", [None, [1, {"a": "b"}]], {"deep": {"er": [0]}}, 10, 9, "9"
)  # fmt: skip


def sequential(rng: random.Random) -> Iterator[Plan]:
    """One client reads and writes one thing after another; keys are strings and integers, and 7 is another than "7"."""
    for number, (size, quorums) in enumerate(((3, (2, 2)), (3, (1, 3)), (3, (3, 1)), (5, (3, 3)))):
        nodes = names(size)
        asks = []
        whole = rng.choice([0, 7, -3])
        for key, values in (
            ("x", VALUES[number::4]), (whole, VALUES[:2]), (str(whole), ["other"]), (whole, []), ("a key/ü", ["last"]),
        ):  # fmt: skip
            asks.append(read(rng.choice(nodes), key, 0.1))
            for value in values:
                asks += [write(rng.choice(nodes), value, key), read(rng.choice(nodes), key)]
        many = [write(rng.choice(nodes), one, "again") for one in range(12)]  # counters of two digits
        asks += [*many, *(read(node, "again") for node in nodes)]
        yield _plan(rng, size, quorums, "one client, no faults", {"c1": tuple(asks)}, until=200.0)


def lone(rng: random.Random) -> Iterator[Plan]:
    """Operations far from each other, in a network whose messages all take equally long."""
    for size, quorums in [*((3, q) for q in SAFE_3), *((5, q) for q in SAFE_5)]:
        nodes = names(size)
        first, second, third = rng.sample(nodes, 3)
        asks = [read(first), write(second, 1), read(third), read(third), write(first, 2), write(third, 3), read(second)]
        yield _plan(
            rng, size, quorums, "one operation at a time, 10 ms a message",
            {"c1": tuple(Ask(ask.node, ask.body, 1.0) for ask in asks)}, (), STEADY, until=60.0,
        )  # fmt: skip


def together(rng: random.Random) -> Iterator[Plan]:
    """Several clients at once, also at one node, and no faults."""
    for size, quorums in ((3, (2, 2)), (3, (1, 3)), (5, (3, 3))):
        yield _plan(rng, size, quorums, "clients at once, no faults", busy(rng, names(size), 5, 4), until=60.0)


# ---- every interleaving


def models(rng: random.Random) -> Iterator[Model]:
    """Small clusters whose every interleaving is looked at, within the budget."""
    a, b, c = rng.sample(names(3), 3)
    other = a, b, c

    def model(quorums: Quorums, *asks: Sequence[Ask], crashes: int = 0) -> Model:
        told = {f"c{number}": tuple(one) for number, one in enumerate(asks, 1)}
        what = "every order of messages" + (f", and a crash of {c}" if crashes else "")
        return Model(store(3, quorums), told, crashes=crashes, crashable=(c,), label=label(3, quorums, what))

    yield model((2, 2), [write(a, 1)], [read(b), read(c)])
    yield model((2, 2), [write(a, 1), write(a, 2)], [read(b)])
    yield model((2, 2), [write(a, 1)], [write(b, 2)], [read(c), read(rng.choice(other))])
    yield model((3, 1), [write(a, 1)], [read(b), read(c)])
    yield model((1, 3), [write(a, 1), write(b, 2)], [read(c)])
    yield model((2, 2), [write(a, 1), read(b)], crashes=1)


# ---- a network that loses, delays and cuts


def lossy(rng: random.Random) -> Iterator[Plan]:
    """Several clients at once, two keys; messages are lost and late, links are cut, nodes stand still."""
    combinations = [*((3, q) for q in SAFE_3), (3, (2, 2)), (3, (2, 2)), (5, (3, 3)), (5, rng.choice(SAFE_5))]
    for size, quorums in combinations:
        nodes = names(size)
        network = Network(0.001, rng.choice([0.05, 0.2, 0.5]), rng.choice([0.0, 0.02, 0.1]))
        mishaps = random_mishaps(rng, nodes, ("partition", "one-way", "bridge", "pause"), 0.3, 9.0)
        yield _plan(
            rng, size, quorums, "lost and late messages, partitions, pauses", busy(rng, nodes, 6, 5), mishaps, network,
            healed=9.0, until=60.0,
        )  # fmt: skip


def busy(rng: random.Random, nodes: Sequence[str], clients: int, each: int, keys: Sequence[Any] = ("x", 7)) -> Any:
    """So many clients that read and write, each value once; in the end each key is read at every node."""
    value = 0
    asks = {}
    for number in range(1, clients + 1):
        own = []
        for _ in range(each):
            key, node, after = rng.choice(list(keys)), rng.choice(list(nodes)), rng.choice([0.0, 0.0, 0.1, 0.6])
            value += 1
            own.append(write(node, value, key, after) if rng.random() < 0.45 else read(node, key, after))
        asks[f"c{number}"] = (*own, *(read(node, key) for node in rng.sample(list(nodes), 2) for key in keys))
    return asks


def scripted(rng: random.Random) -> Iterator[Plan]:
    """Schedules in which usual mistakes show: links are cut at the worst moment."""
    for size, quorums in ((3, (2, 2)), (3, (3, 1)), (5, (3, 3))):
        nodes = names(size)
        rng.shuffle(nodes)
        first, *others = nodes
        rest = tuple(others)
        cut = Mishap("one-way", 1.0 + HOP + BEFORE_ACKS, 1.5, ((first,), rest))  # what it stores is lost
        alone = Mishap("partition", 3.0, 4.0, ((first,), rest))

        def plan(asks: Any, *mishaps: Mishap, what: str, size: int = size, quorums: Quorums = quorums) -> Plan:
            return _plan(rng, size, quorums, what, asks, mishaps, STEADY, until=20.0)

        for value in (1, 0):  # which one replica holds, is read there, then elsewhere
            yield plan(
                {"c1": (write(first, value, after=1.0),), "c2": (read(first, after=2.0),), "c3": (read(rest[0], after=3.2),)},
                cut, alone, what=f"a write of {value} that got to one replica, two reads",
            )  # fmt: skip
        again = Mishap("one-way", 2.0 + HOP + BEFORE_ACKS, 2.5, ((first,), rest))  # what it writes back is lost
        yield plan(
            {"c1": (write(first, 1, after=1.0),), "c2": (read(first, after=2.0),), "c3": (read(rest[0], after=3.2),)},
            cut, again, alone, what="a write that got to one replica, two reads, a write-back that is lost",
        )  # fmt: skip
        yield plan(  # who was away writes with a timestamp that is too low
            {
                "c1": tuple(write(first, number, after=0.2) for number in (1, 2, 3)),
                "c2": (write(rest[-1], 4, after=2.0), read(first), read(rest[0])),
            },
            Mishap("partition", 0.1, 1.8, ((rest[-1],), (first, *rest[:-1]))), what="a node that was away writes",
        )  # fmt: skip
        yield plan(  # two writes at the same moment, then reads everywhere
            {
                "c1": (write(first, 1, after=1.0),), "c2": (write(rest[0], 2, after=1.0),),
                "c3": tuple(read(node, after=1.2 if n == 0 else 0.0) for n, node in enumerate([first, *rest, first])),
            },
            what="two writes at once, then reads everywhere",
        )  # fmt: skip
        for home, away in ((first, rest[0]), (rest[0], first)):  # whichever timestamp is higher
            yield plan(  # two values that one replica each holds, read at one of them, elsewhere, there again
                {
                    "c1": (write(home, 1, after=1.0),), "c2": (write(away, 2, after=1.0),),
                    "c3": (read(home, after=2.0), read(rest[-1], after=1.0), read(home, after=1.5)),
                },
                Mishap("partition", 1.0 + HOP + BEFORE_ACKS, 1.5, tuple((node,) for node in nodes)),
                Mishap("partition", 1.8, 2.9, (rest[1:] if size == 3 else rest[-2:], (first, *rest[: size // 2]))),
                Mishap("partition", 2.9, 4.0, ((home,), tuple(node for node in nodes if node != home))),
                what="two writes that got to one replica each, three reads",
            )  # fmt: skip
        if quorums[1] > 1:
            side = (first, *rest[: size // 2])  # with who has it, as few as are asked
            yield plan(  # a value that one replica holds is read by another one, whose side then is without the first
                {
                    "c1": (write(first, 1, after=1.0),), "c2": (read(rest[0], after=2.0),),
                    "c3": (read(rest[0], after=3.2), read(rest[-1])),
                },
                cut, Mishap("partition", 1.8, 2.9, (side, tuple(node for node in rest if node not in side))), alone,
                what="a write that got to one replica, read by another one, and again without the first",
            )  # fmt: skip
        missed = Mishap("one-way", 1.0 + 3.95 * HOP, 1.0 + 4.05 * HOP, ((first,), (rest[0],)))  # the first store, there
        yield plan(  # two writes at one node at nearly the same moment
            {
                "c1": (write(first, 1, after=1.0),), "c2": (write(first, 2, after=1.001),),
                "c3": tuple(read(node, after=1.2 if n == 0 else 0.0) for n, node in enumerate([*rest, first, *rest])),
            },
            missed, what="two writes at once at one node",
        )  # fmt: skip
        if size > 3:
            near, far = (first, rest[0]), rest[1:]
            yield plan(  # while a read waits for its write-back, its node gets a newer copy, which few others have
                {
                    "c1": (write(rest[-1], 1, after=1.0),), "c2": (read(first, after=2.0),),
                    "c3": (write(rest[0], 2, after=2.005),), "c4": (read(rest[-1], after=2.2),),
                },
                Mishap("one-way", 2.005 + HOP + BEFORE_ACKS, 2.0 + 6.2 * HOP, ((rest[0],), far)),
                Mishap("partition", 2.0 + 6.5 * HOP, 4.0, (near, far)),
                what="a read whose node gets a newer copy meanwhile",
            )  # fmt: skip
        stopped = Mishap("pause", 0.5, 2.0 + 3 * HOP, ((rest[-1],),))  # goes on when the second write is stored
        if quorums[0] < size:
            yield plan(  # late answers to a first write arrive while a second one is stored
                {"c1": (write(first, 1, after=1.0),), "c2": (write(first, 2, after=2.0), read(rest[0], after=1.1))},
                stopped, Mishap("one-way", 2.0 + HOP + BEFORE_ACKS, 2.5, ((first,), rest)), alone,
                what="late answers to an earlier write",
            )  # fmt: skip


# ---- crashes


def crashing(rng: random.Random) -> Iterator[Plan]:
    """Nodes crash, also in the middle of a handler and all at once, and come back."""
    for size, quorums in ((3, (2, 2)), (3, (2, 2)), (3, (1, 3)), (3, (3, 1)), (5, (3, 3)), (5, (2, 4))):
        nodes = names(size)
        mishaps = []
        for mishap in random_mishaps(
            rng, nodes, ("crash", "crash", "crash", "one-way"), 0.3, 8.0, (0.2, 1.0), (0.1, 0.5), size
        ):
            after = rng.randint(1, 60) if mishap.what == "crash" and rng.random() < 0.4 else None
            mishaps.append(Mishap(mishap.what, mishap.at, mishap.until, mishap.groups, after))
        yield _plan(
            rng, size, quorums, "crashes and restarts", busy(rng, nodes, 5, 5), tuple(mishaps),
            Network(0.001, rng.choice([0.05, 0.3])), healed=8.0, until=60.0,
        )  # fmt: skip


def kept(rng: random.Random) -> Iterator[Plan]:
    """What was acknowledged outlasts a crash of all nodes at once; keys are strings and integers."""
    for size, quorums in ((3, (2, 2)), (3, (1, 3)), (3, (3, 1)), (5, (3, 3))):
        nodes = names(size)
        keys: list[Any] = ["x", 7]
        writes = [write(rng.choice(nodes), f"{key} kept", key) for key in keys]
        reads = [read(node, key, 2.0 if not n and key == "x" else 0.0) for n, node in enumerate(nodes) for key in keys]
        yield _plan(
            rng, size, quorums, "all nodes crash at once", {"c1": (*writes, *reads)},
            (Mishap("crash", 1.0, 1.2, (tuple(nodes),)),), until=60.0,
        )  # fmt: skip


def cut_short(rng: random.Random) -> Iterator[Plan]:
    """The serving node crashes after each of the things that it sends and writes, comes back, and writes again.

    Then one of the others is cut off, each in its turn: it may be the only one that was told.
    """
    first, *others = rng.sample(names(3), 3)
    for second, third in (others, others[::-1]):
        reads = read(first), read(second, after=1.0), read(third), read(first), read(second)
        asks = {"c1": (write(first, 1, after=1.0),), "c2": (write(first, 2, after=2.0), *reads)}
        for effects in range(1, 13):
            crash = Mishap("crash", 0.9, 1.5, ((first,),), effects)
            away = Mishap("partition", 1.8, 2.8, ((second,), (first, third)))
            yield _plan(rng, 3, (2, 2), f"{first} crashes, and writes again", asks, (crash, away), STEADY, until=30.0)


def told_one_only(rng: random.Random) -> Iterator[Plan]:
    """As `cut_short`; then who may be the only one that was told is read without the node that has written since, and
    that node is read again without it: values of one timestamp would come and go, the greater or the smaller one."""
    first, *others = rng.sample(names(3), 3)
    for (second, third), (one, two) in product((others, others[::-1]), ((1, 2), (2, 1))):
        asks = {
            "c1": (write(first, one, after=1.0),),
            "c2": (write(first, two, after=2.0), read(first)),
            "c3": (read(second, after=3.2),),
            "c4": (read(first, after=4.3),),
        }
        away = Mishap("partition", 1.8, 2.8, ((second,), (first, third)))
        alone = Mishap("partition", 3.0, 4.0, ((first,), (second, third)))
        again = Mishap("partition", 4.2, 5.0, ((second,), (first, third)))
        for effects in range(2, 11 if one < two else 8):
            crash = Mishap("crash", 0.9, 1.5, ((first,),), effects)
            what = f"{first} crashes, and writes again; then it is cut off for a while"
            yield _plan(rng, 3, (2, 2), what, asks, (crash, away, alone, again), STEADY, until=12.0)


def equal_again(rng: random.Random) -> Iterator[Plan]:
    """A value, another one that a replica misses, and the first one again; then that replica crashes, and is read with the
    one that missed the last: what it has on disk must be the last one's timestamp, and not only its value."""
    first, second, third = rng.sample(names(3), 3)
    asks = {
        "c1": (write(second, 1, after=1.0), write(second, 2, after=1.0), write(second, 1, after=1.0)),
        "c2": (read(first, after=4.6),),
    }
    mishaps = (
        Mishap("partition", 1.8, 2.6, ((first,), (second, third))),
        Mishap("partition", 2.8, 3.8, ((third,), (first, second))),
        Mishap("crash", 4.0, 4.2, ((first,),)),
        Mishap("partition", 4.3, 5.5, ((second,), (first, third))),
    )
    yield _plan(rng, 3, (2, 2), f"a value is written again; {first} crashes", asks, mishaps, STEADY, until=12.0)


def late_for_the_dead(rng: random.Random) -> Iterator[Plan]:
    """Answers to a node's request arrive when it has crashed since, and serves another."""
    first, second, third = rng.sample(names(3), 3)
    rest = (second, third)
    mishaps = (
        Mishap("pause", 0.5, 2.0 + 3 * HOP, ((third,),)),  # goes on when the second write is being stored
        Mishap("crash", 1.2, 1.4, ((first,),)),
        Mishap("one-way", 2.0 + HOP + BEFORE_ACKS, 2.5, ((first,), rest)),
        Mishap("partition", 3.0, 4.0, ((first,), rest)),
    )
    asks = {"c1": (write(first, 1, after=1.0),), "c2": (write(first, 2, after=2.0), read(second, after=1.1))}
    yield _plan(rng, 3, (2, 2), f"answers to {first}, which has crashed since", asks, mishaps, STEADY, until=20.0)


def nothing_done_before(rng: random.Random) -> Iterator[Plan]:
    """As `late_for_the_dead`, but in its earlier life the node has answered nothing, and perhaps written nothing: what tells
    one life from the next must be on disk when a life begins. Late are acknowledgements of a write and of a write-back,
    and the answer to a question about another key."""
    first, second, third = rng.sample(names(3), 3)
    rest = (second, third)
    early_crash = Mishap("crash", 1.0 + HOP + BEFORE_ACKS, 1.4, ((first,),))
    for early in (write(first, 1, after=1.0), read(first, after=1.0)):
        mishaps = (
            Mishap("pause", 0.5, 2.0 + 3 * HOP, ((third,),)),  # goes on when the later write is being stored
            early_crash,
            Mishap("one-way", 2.0 + HOP + BEFORE_ACKS, 2.5, ((first,), rest)),
            Mishap("partition", 3.0, 4.0, ((first,), rest)),
        )
        asks = {
            "c1": (write(second, 0, after=0.2),), "c2": (early,),
            "c3": (write(first, 2, after=2.0), read(second, after=1.1)),
        }  # fmt: skip
        what = f"answers to the first {early.body['type']} at {first}, which has crashed since"
        yield _plan(rng, 3, (2, 2), what, asks, mishaps, STEADY, until=20.0)
    apart = (
        Mishap("partition", 0.2, 0.8, ((first,), rest)),
        Mishap("pause", 0.9, 2.6, ((second,),)),
        Mishap("pause", 0.9, 2.0 + 2.5 * HOP, ((third,),)),  # goes on when the later read asks
        early_crash,
    )
    asks = {"c1": (write(second, 1, after=0.3),), "c2": (read(first, "y", 1.0),), "c3": (read(first, after=2.0),)}
    what = f"answers to the first read of another key at {first}, which has crashed since"
    yield _plan(rng, 3, (2, 2), what, asks, apart, STEADY, until=12.0)


# ---- without a quorum, and with just one


def without(rng: random.Random) -> Iterator[tuple[Plan, int]]:
    """Too few replicas reach each other: (plan, how many do). c1 writes and c2 reads at one of them, from 1.0 s on."""
    again = [
        (size, quorums, net) for size, quorums in ((3, (3, 3)), (5, (3, 3)), (5, (2, 4))) for net in ANSWERED_TWICE
    ]
    ordinary = [*((3, q) for q in SAFE_3), *((5, q) for q in SAFE_5)]
    for size, quorums, network in [*((*one, Network()) for one in ordinary), *again]:
        nodes = names(size)
        rng.shuffle(nodes)
        reached = max(quorums) - 1
        here, there = tuple(sorted(nodes[:reached])), tuple(sorted(nodes[reached:]))
        node = rng.choice(here)
        asks = {
            "c1": (write(node, 1, after=0.2), write(node, 2, after=1.2)),
            "c2": (write(node, 3, "y", 0.2), read(node, "y", 1.2)),
        }  # fmt: skip
        down = Mishap("crash", 1.0, NEVER, (there,))
        cut = Mishap("partition", 1.0, NEVER, (here, there))
        how = rng.choice([down, cut])
        what = f"{', '.join(there)} {'down' if how is down else 'cut off'}"
        if network in ANSWERED_TWICE:
            what += ", every message comes twice" if network.duplicate else ", messages take 0.3 s"
        plan = Plan(store(size, quorums), asks, (how,), network, rng.randrange(2**31), until=15.0)
        yield replace(plan, label=label(size, quorums, what)), reached


def left_in_between(rng: random.Random) -> Iterator[Plan]:
    """The quorum is lost when a request has got half-way."""
    for quorums in ((2, 2), (3, 1), (1, 3)):
        first, *others = rng.sample(names(3), 3)
        for hops in (0.5, 1.5, 2.5, 3.5):
            cut = Mishap("partition", 1.0 + HOP + hops * HOP, 8.0, ((first,), tuple(sorted(others))))
            asks = {"c1": (write(first, 1, after=1.0),), "c2": (read(first, after=1.0),)}
            yield _plan(rng, 3, quorums, f"{first} is cut off while it serves", asks, (cut,), STEADY, until=15.0)


def just_enough(rng: random.Random) -> Iterator[Plan]:
    """As many nodes as may be are down, or cut off for ever; clients ask the others."""
    cases: list[tuple[int, Quorums, tuple[int, ...]]] = [(3, (2, 2), (n,)) for n in range(3)]
    cases += [(5, q, tuple(rng.sample(range(5), 5 - max(q)))) for q in ((3, 3), (3, 3), (2, 4), (4, 2))]
    for size, quorums, gone in cases:
        nodes = names(size)
        away = tuple(nodes[n] for n in gone)
        left = [node for node in nodes if node not in away]
        asks = {
            f"c{n}": (write(node, n, after=1.0), read(node, after=0.1), read(node, "y", 0.1))
            for n, node in enumerate(left, 1)
        }  # fmt: skip
        for mishap in (Mishap("crash", 0.5, NEVER, (away,)), Mishap("partition", 0.5, NEVER, (away, tuple(left)))):
            what = f"{', '.join(away)} {'down' if mishap.what == 'crash' else 'cut off'}"
            yield _plan(rng, size, quorums, what, asks, (mishap,), until=30.0)


def afterwards(rng: random.Random) -> Iterator[Plan]:
    """Requests begin while no quorum is there, many of them at one node; once all is whole again, new ones are served."""
    for size, quorums in ((3, (2, 2)), (3, (3, 1)), (3, (1, 3)), (5, (3, 3))):
        nodes = names(size)
        for mishap in (
            Mishap("partition", 1.0, 8.0, tuple((node,) for node in nodes)),
            Mishap("crash", 1.0, 8.0, (tuple(nodes[: min(quorums) or 1]),)),
        ):
            asked = [*nodes, *nodes[:1] * (CROWD if size == 3 else 0)]
            early = {f"c{n}": (write(node, n, after=1.5), read(node, after=0.1)) for n, node in enumerate(asked, 1)}
            asks = {**early, "last": (Ask(nodes[0], {"type": "read", "key": "x"}, 14.0), *(
                ask for n, node in enumerate(nodes) for ask in (write(node, 100 + n), read(node))
            ))}  # fmt: skip
            yield _plan(rng, size, quorums, f"after a {mishap.what}", asks, (mishap,), until=60.0)


# ---- quorums that do not meet


def split_brains(_: random.Random) -> Iterator[Plan]:
    """W + R <= N: each side of a partition has its quorum. c1 writes on one, c2 reads on the other."""
    for size, quorums, here in (
        (3, (1, 1), 1), (3, (1, 1), 2), (5, (2, 2), 2), (5, (1, 2), 2), (5, (2, 1), 2), (5, (1, 1), 1),
    ):  # fmt: skip
        nodes = names(size)
        asks = {"c1": (write("n1", 1, after=1.0),), "c2": (read(nodes[-1], after=2.0),)}
        cut = Mishap("partition", 0.5, NEVER, (tuple(nodes[:here]), tuple(nodes[here:])))
        yield Plan(
            store(size, quorums), asks, (cut,), seed=1, until=15.0, label=label(size, quorums, "a partition"),
        )  # fmt: skip


def never_asked(rng: random.Random) -> Iterator[Plan]:
    """A write that cannot ask R replicas stores nothing, also where it could store at W. Its node crashes for good."""
    for quorums, reached in (((2, 4), 3), ((2, 4), 2), ((1, 4), 3)):
        nodes = names(5)
        rng.shuffle(nodes)
        here, there = nodes[:reached], nodes[reached:]
        asks = {"c1": (write(here[0], 1, after=1.0),), "c2": (read(here[1], after=7.0), read(there[0]))}
        cut = Mishap("partition", 0.5, 4.0, (tuple(sorted(here)), tuple(sorted(there))))
        crash = Mishap("crash", 3.0, NEVER, ((here[0],),))
        what = f"{here[0]} {UNASKED} {reached} of 5 replicas, and crashes"
        yield _plan(rng, 5, quorums, what, asks, (cut, crash), until=25.0)
