"""The runs of cap_store: who asks which node what and when, and how the network is cut meanwhile."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from grader.exercises.common.nodes import names, skewed
from grader.nodes.clients import Ask
from grader.nodes.plan import Mishap, Plan
from grader.nodes.sim import Member, cluster
from grader.trace.story import Sent

START = 4.0  # when the first client asks in CP mode: whoever elects a leader has had the time
SETTLED = 2.0  # seconds after a cut from which a node without a majority must have noticed
PROMPT = 2.15  # 2 s by a clock that is 1 % slow, and twice the way between client and node
AGREED = 5.0  # seconds after the healing within which all must be as before
TAKEN_OVER = 4.0  # seconds after a cut within which a majority goes on

KEYS: tuple[Any, ...] = ("x", 7)
ODD: tuple[Any, ...] = (0, "", False, [], {"a": [1, 2]})  # values as good as any other
Groups = tuple[tuple[str, ...], ...]


class Values:
    """Values that are written, each only once, in no order."""

    def __init__(self, rng: random.Random) -> None:
        numbers: list[Any] = rng.sample(range(10, 99), 60)
        odd = rng.sample(ODD, len(ODD))
        for place, value in enumerate(odd):
            numbers.insert(rng.randrange(2, 8) + 6 * place, value)
        self._left = iter(numbers)

    def write(self, key: Any) -> dict[str, Any]:
        return {"type": "write", "key": key, "value": next(self._left)}


def read(key: Any) -> dict[str, Any]:
    return {"type": "read", "key": key}


def client_of(node: str) -> str:
    """The client that asks this node alone: c3 that of n3."""
    return f"c{node[1:]}"


def members(size: int, mode: str, clocks: random.Random | None = None) -> tuple[Member, ...]:
    """A cluster in one mode; with `clocks` they differ."""
    made = cluster(size, "Store", {"mode": mode})
    return made if clocks is None else skewed(made, clocks, -100)


def split(rng: random.Random, nodes: Sequence[str], sizes: Sequence[int]) -> Groups:
    """Random groups of these sizes."""
    left = rng.sample(list(nodes), len(nodes))
    groups = []
    for size in sizes:
        groups.append(tuple(sorted(left[:size])))
        left = left[size:]
    return tuple(groups)


def parted(rng: random.Random, nodes: Sequence[str]) -> Groups:
    """Two random groups; three now and then, where there are enough nodes."""
    first = rng.randint(1, len(nodes) - 1)
    if len(nodes) > 3 and first < len(nodes) - 1 and rng.random() < 0.3:
        return split(rng, nodes, (first, 1, len(nodes) - 1 - first))
    return split(rng, nodes, (first, len(nodes) - first))


def cuts(rng: random.Random, nodes: Sequence[str], since: float, until: float, halves: bool) -> Iterator[Mishap]:
    """Partitions one after another, with pauses of 0.1 to 1 s."""
    time = since
    while (end := time + rng.uniform(0.3, 2.0)) < until:
        groups = split(rng, nodes, (len(nodes) // 2,) * 2) if halves else parted(rng, nodes)
        yield Mishap("partition", time, end, groups)
        time = end + rng.uniform(0.1, 1.0)


def _words(groups: Groups) -> str:
    return " | ".join(" ".join(group) for group in groups)


# ---- CP


def at_random(rng: random.Random, size: int, seed: int, halves: bool = False) -> Plan:
    """Three clients ask any node in no order while the network is cut again and again."""
    nodes, values = names(size), Values(rng)
    asks: dict[str, tuple[Ask, ...]] = {"c1": (Ask(rng.choice(nodes), values.write("x"), at=START),)}
    for client in ("c2", "c3", "c4"):
        listed = []
        for _ in range(14):
            key = "x" if rng.random() < 0.8 else 7
            body = values.write(key) if rng.random() < 0.4 else read(key)
            listed.append(Ask(rng.choice(nodes), body, rng.uniform(0.0, 0.35), START + 0.4))
        asks[client] = tuple(listed)
    return Plan(
        members(size, "CP", rng), asks, tuple(cuts(rng, nodes, START + 2.2, START + 9, halves)), seed=seed,
        healed=START + 9.5, until=START + 14, label=f"{size} nodes, partitions at random",
    )  # fmt: skip


def half_done(rng: random.Random, size: int, seed: int, false: bool = False) -> Plan:
    """A write that nothing disturbs yet: see `interrupted`. With `false` what is written is false in Python."""
    nodes, values = names(size), Values(rng)
    groups = split(rng, nodes, (size // 2, size - size // 2))
    at = START + 2.2
    asks: dict[str, tuple[Ask, ...]] = {"c1": (Ask(nodes[0], values.write("x"), at=START),)}
    written = values.write("x")
    if false:
        written["value"] = rng.choice([value for value in ODD if not value])
    asks["c2"] = (Ask(rng.choice(groups[0]), written, at=at),)
    asks["c3"] = tuple(Ask(rng.choice(groups[1]), read("x"), at=at + 0.3) for _ in range(3))
    asks["c3"] += tuple(Ask(rng.choice(nodes), read("x"), at=at + 0.85) for _ in range(7))
    return Plan(
        members(size, "CP", rng), asks, (Mishap("partition", at + 0.2, at + 0.8, groups),), seed=seed, healed=at + 0.8,
        until=at + 5, label=f"{size} nodes, cut for 0.6 s while something is written",
    )  # fmt: skip


def interrupted(rng: random.Random, pilot: Plan, sent: Sequence[Sent]) -> Plan:
    """The same, cut while the node that was asked to write tells the others for the second time (or another one, if it
    did so only once): then reads, one after another: once somebody has seen it, nobody may see less."""
    bursts = _bursts(pilot, sent)
    after = rng.uniform(0.0002, 0.003) if rng.random() < 0.3 else rng.uniform(0.003, 0.03)
    cut = bursts[min(1, len(bursts) - 1) if rng.random() < 0.8 else -1] + after
    [mishap] = pilot.mishaps
    return replace(pilot, mishaps=(replace(mishap, at=cut, until=cut + 0.6),), healed=cut + 0.6)


def _bursts(pilot: Plan, sent: Sequence[Sent]) -> list[float]:
    """When the node that was asked to write told others something."""
    writer = pilot.asks["c2"][0]
    others = {member.name for member in pilot.members} - {writer.node}
    told = sorted({one.sent for one in sent if one.src == writer.node and one.dst in others and one.sent > writer.at})
    return [time for time in told if time < writer.at + 0.2] or [writer.at + 0.05]


def seen_by_two(rng: random.Random, pilot: Plan, sent: Sequence[Sent]) -> Plan:
    """As `seen_once`, of five nodes: two have it when the writer is read, and they reach just one other node then."""
    bursts = _bursts(pilot, sent)
    cut = bursts[min(1, len(bursts) - 1)] + 0.0005  # before any of it can arrive on the other side
    [first] = pilot.mishaps
    # the write is given up meanwhile: nobody sends it again
    mishap = replace(first, at=cut, until=cut + 2.3)
    [one, *others] = mishap.groups[1]
    few = replace(first, at=cut + 2.302, until=cut + 2.648, groups=((*mishap.groups[0], one), tuple(others)))
    again = replace(first, at=cut + 2.65, until=cut + 9.3)
    writer = pilot.asks["c2"][0].node
    asks = {name: pilot.asks[name] for name in ("c1", "c2")}
    asks["c3"] = (Ask(writer, read("x"), at=cut + 2.32),)
    asks["c4"] = (Ask(one, read("x"), at=cut + 2.7), Ask(others[0], read("x"), at=cut + 4.9))
    label = f"5 nodes, cut while something is written; {writer} is asked for it while they are cut into {_words(few.groups)}"
    return replace(
        pilot, asks=asks, mishaps=(mishap, few, again), healed=again.until, until=again.until + 2.0, label=label
    )


def seen_once(rng: random.Random, pilot: Plan, sent: Sequence[Sent]) -> Plan:
    """As `interrupted`; then the writer is read, and at once its side is cut off again: what it has shown, the other
    side must show as well, or nothing."""
    plan = interrupted(rng, pilot, sent)
    [first] = plan.mishaps
    writer, healed = plan.asks["c2"][0].node, first.until
    others = plan.mishaps[0].groups[1]
    again = replace(first, at=healed + 0.35, until=healed + 7.0)
    asks = {name: plan.asks[name] for name in ("c1", "c2")}
    asks["c3"] = (Ask(writer, read("x"), at=healed + 0.02),)
    asks["c4"] = tuple(
        Ask(node, read("x"), at=again.at + 0.02 + 2.2 * place) for place in range(3) for node in rng.sample(others, 2)
    )
    label = f"{len(plan.members)} nodes, cut while something is written; {writer} is asked for it, and cut off again"
    return replace(plan, asks=asks, mishaps=(first, again), healed=again.until, until=again.until + 2.0, label=label)


def together(rng: random.Random, size: int, seed: int) -> Plan:
    """Two clients write at the same time, at one node or at two, and then all nodes are read; nothing is cut before the
    end."""
    nodes, values = names(size), Values(rng)
    asks: dict[str, tuple[Ask, ...]] = {"c1": (Ask(nodes[0], values.write("x"), at=START),)}
    times = [START + 2.2 + 1.2 * place for place in range(6)]
    for client in ("c2", "c3"):
        apart = client == "c3"
        asks[client] = tuple(
            Ask(nodes[(place + (apart and place % 2)) % size], values.write("x"), at=time)
            for place, time in enumerate(times)
        )
    for client in ("c4", "c5"):
        asks[client] = tuple(
            Ask(rng.choice(nodes), read("x"), at=time + (0.05, 0.15)[place % 2])  # while they are written, and after
            for place, time in enumerate(times) for _ in range(5)
        )  # fmt: skip
    end = times[-1] + 3
    return Plan(
        members(size, "CP", rng), asks, (Mishap("partition", end, end + 1, ((nodes[0],), tuple(nodes[1:]))),), seed=seed,
        healed=end + 1, until=end + 3, label=f"{size} nodes, two writes at the same time",
    )  # fmt: skip


def small_side(rng: random.Random, sizes: Sequence[int], seed: int) -> Plan:
    """One partition into groups of these sizes for 9 s; every node of a group that is no majority is asked, at first by two
    clients, one a second after the other."""
    size = sum(sizes)
    nodes, values = names(size), Values(rng)
    groups = split(rng, nodes, sizes)
    cut = START + 3
    asks: dict[str, tuple[Ask, ...]] = {
        "c7": (Ask(rng.choice(nodes), values.write("x"), at=START), Ask(rng.choice(nodes), read("x")))
    }
    larger = [node for group in groups if 2 * len(group) > size for node in group]
    for node in nodes:
        if node in larger:
            continue
        bodies = [values.write("x"), read("x"), values.write("x"), read("x")]
        if rng.random() < 0.5:
            bodies = [bodies[1], bodies[0], bodies[3], bodies[2]]
        times = (cut + rng.uniform(0.01, 0.3), cut + 2.2, cut + 4.5, cut + 6.7)
        asks[client_of(node)] = tuple(Ask(node, body, at=at) for body, at in zip(bodies, times, strict=True))
        asks[f"{client_of(node)} too"] = (Ask(node, read("x"), at=times[0] + 1.0),)
    if larger:
        asks["c8"] = tuple(
            Ask(rng.choice(larger), body, at=cut + after)
            for body, after in ((values.write("x"), 4.1), (read("x"), 6.3))
        )
    asks["c9"] = tuple(Ask(node, read("x"), at=cut + 9 + AGREED) for node in nodes)
    return Plan(
        members(size, "CP", rng), asks, (Mishap("partition", cut, cut + 9, groups),), seed=seed, healed=cut + 9,
        until=cut + 19, label=f"{size} nodes, cut into {_words(groups)}",
    )  # fmt: skip


def works(rng: random.Random, size: int, seed: int) -> Plan:
    """Whole; one node in the middle cut off for long; whole; everyone alone, and a random cut; whole. One client asks."""
    nodes, values = names(size), Values(rng)
    middle = nodes[size // 2]
    others = [node for node in nodes if node != middle]
    asks = [Ask(node, values.write(KEYS[at % 2]), at=START) for at, node in enumerate(nodes)]
    asks += [Ask(node, read(key), at=START) for node in nodes for key in KEYS]
    off = START + 4
    for place in range(2):
        at = off + TAKEN_OVER + 0.1 + 2.2 * place
        asks += [Ask(others[place], values.write("x"), at=at), Ask(others[-1 - place], read("x"), at=at + 0.2)]
    whole = off + TAKEN_OVER + 7
    asks += [
        Ask(node, body, at=whole + AGREED) for node in (middle, nodes[0]) for body in (values.write("x"), read("x"))
    ]
    alone = whole + AGREED + 3
    asks += [Ask(node, values.write("x"), at=alone + 0.1) for node in rng.sample(nodes, 1)]
    again = alone + 3
    last = again + 3
    asks += [Ask(node, body, at=last + AGREED) for node in nodes for body in (read("x"), values.write("x"))]
    asks += [Ask(node, read("x"), at=last + AGREED) for node in nodes]
    mishaps = (
        Mishap("partition", off, whole, (tuple(others), (middle,))),
        Mishap("partition", alone, again, tuple((node,) for node in nodes)),
        Mishap("partition", again, last, parted(rng, nodes)),
    )
    return Plan(
        members(size, "CP", rng), {"c1": tuple(asks)}, mishaps, seed=seed, healed=last, until=last + AGREED + 12,
        label=f"{size} nodes, cut and healed twice",
    )  # fmt: skip


# ---- AP


def readers(nodes: Sequence[str], at: float) -> dict[str, tuple[Ask, ...]]:
    """A client at each node that reads all keys."""
    return {f"c1{node[1:]}": tuple(Ask(node, read(key), at=at) for key in KEYS) for node in nodes}


def available(rng: random.Random, size: int, seed: int) -> Plan:
    """A client at each node, a random partition, and one in which every node is alone."""
    nodes, values = names(size), Values(rng)
    asks = {}
    for node in nodes:
        at = [rng.uniform(0.5, 1), *sorted(rng.uniform(1.2, 10) for _ in range(6))]
        asks[client_of(node)] = tuple(
            Ask(node, values.write(rng.choice(KEYS)) if rng.random() < 0.5 else read(rng.choice(KEYS)), at=time)
            for time in at
        )
    asks["c9"] = tuple(  # a text is another key than a number
        Ask(nodes[0], body, at=10.3) for body in (values.write(7), values.write("7"), read(7), read("7"))
    )
    mishaps = (
        Mishap("partition", 1.2, 5.5, parted(rng, nodes)),
        Mishap("partition", 6.0, 9.5, tuple((node,) for node in nodes)),
    )
    return Plan(
        members(size, "AP"), asks, mishaps, seed=seed, healed=10.0, until=13.0,
        label=f"{size} nodes, cut into {_words(mishaps[0].groups)}, then every node alone",
    )  # fmt: skip


def converged(rng: random.Random, size: int, seed: int) -> Plan:
    """Writes of both keys on all sides of two partitions, and reads at every node 5 s after the healing."""
    nodes, values = names(size), Values(rng)
    asks = {}
    for node in nodes:
        bodies = [values.write(rng.choice(KEYS)) if rng.random() < 0.7 else read(rng.choice(KEYS)) for _ in range(4)]
        at = sorted([rng.uniform(0.5, 2), rng.uniform(2, 5.5), rng.uniform(6, 8), rng.uniform(6.5, 8.5)])
        asks[client_of(node)] = tuple(Ask(node, body, at=time) for body, time in zip(bodies, at, strict=True))
    one, other = rng.sample(nodes, 2)
    asks[client_of(one)] += (Ask(one, values.write("x"), at=10.2),)
    asks[client_of(other)] += (Ask(other, values.write("x"), at=10.2),)  # as often as one can: at the same time
    first, second = (one,), tuple(node for node in nodes if node != one)
    mishaps = (
        Mishap("partition", 2.0, 5.5, parted(rng, nodes)),
        Mishap("partition", 6.0, 13.0, (first, second)),
    )
    return Plan(
        members(size, "AP"), {**asks, **readers(nodes, 13 + AGREED)}, mishaps, seed=seed, healed=13.0,
        until=13 + AGREED + 4.5, label=f"{size} nodes, cut twice; {one} alone until 13 s",
    )  # fmt: skip


def tied(rng: random.Random, size: int, seed: int) -> Plan:
    """Everyone alone from the start, and each key written once at two nodes: no count says which is the later. One key
    gets values that Python takes for false, whichever is chosen. Three nodes are alone for long: none may give up."""
    nodes, values = names(size), Values(rng)
    empty = rng.sample((0, "") if size % 2 else (False, []), 2)
    healed = 40.0 if size == 3 else 6.5
    asks = {}
    for node, nothing in zip(rng.sample(nodes, 2), empty, strict=True):
        bodies = [{"type": "write", "key": KEYS[0], "value": nothing}, values.write(KEYS[1])]
        asks[client_of(node)] = tuple(Ask(node, body, at=2 + rng.uniform(0, 1)) for body in bodies)
    alone = Mishap("partition", 0.5, healed, tuple((node,) for node in nodes))
    return Plan(
        members(size, "AP"), {**asks, **readers(nodes, healed + AGREED)}, (alone,), seed=seed, healed=healed,
        until=healed + AGREED + 4.5, label=f"{size} nodes, every node alone until {healed:g} s, the same keys written at two of them",
    )  # fmt: skip


def causal(rng: random.Random, size: int, seed: int) -> Plan:
    """One node writes often; another, which has shown that, writes once, and maybe once more in a partition. With the
    other key the other way round, only not so often."""
    nodes, values = names(size), Values(rng)
    one, other = rng.sample(nodes, 2)
    listed: dict[str, list[Ask]] = {client_of(one): [], client_of(other): []}
    for key, often, once, count in (("x", one, other, rng.randint(5, 7)), (7, other, one, rng.randint(1, 2))):
        listed[client_of(often)] += [Ask(often, values.write(key), at=1.0) for _ in range(count)]
        listed[client_of(once)] += [Ask(once, read(key), at=7.0), Ask(once, values.write(key), at=7.0)]
        if rng.random() < 0.5:  # in the partition
            listed[client_of(once)] += [Ask(once, read(key), at=9.0), Ask(once, values.write(key), at=9.0)]
    asks = {client: tuple(sorted(those, key=lambda ask: ask.at)) for client, those in listed.items()}
    rest = [node for node in nodes if node not in (one, other)]
    middle = rng.randint(0, len(rest))
    groups = (tuple(sorted([one, *rest[:middle]])), tuple(sorted([other, *rest[middle:]])))
    return Plan(
        members(size, "AP", rng), {**asks, **readers(nodes, 22.0 + AGREED)},
        (Mishap("partition", 8.5, 22.0, groups),), seed=seed, healed=22.0, until=22 + AGREED + 4.5,
        label=f"{size} nodes, clocks that differ, cut into {_words(groups)}",
    )  # fmt: skip


def after_a_conflict(rng: random.Random, size: int, seed: int) -> Plan:
    """Two nodes that are alone write the same keys, one of them more often. When all agree, each key is read and written
    once more: at a third node, and at one of the two."""
    nodes, values = names(size), Values(rng)
    one, other, third = rng.sample(nodes, 3)
    asks = {
        client_of(node): tuple(
            Ask(node, values.write(key), at=2 + rng.uniform(0, 1)) for key in KEYS for _ in range(count)
        )
        for node, count in ((one, 1), (other, 3))
    }
    late = 4 + AGREED + 0.2
    asks["c8"] = tuple(
        Ask(node, body, at=late)
        for node, key in zip((third, one), KEYS, strict=True) for body in (read(key), values.write(key))
    )  # fmt: skip
    alone = Mishap("partition", 0.5, 4.0, tuple((node,) for node in nodes))
    return Plan(
        members(size, "AP"), {**asks, **readers(nodes, late + AGREED + 0.5)}, (alone,), seed=seed, healed=4.0,
        until=late + AGREED + 5, label=f"{size} nodes, every node alone until 4 s, and each key written at two; then once more",
    )  # fmt: skip


def down(rng: random.Random, size: int, effects: int, seed: int, after: bool) -> Plan:
    """A node that writes crashes when it has sent and written so often, the others are asked, and it comes back. With
    `after` it is asked to write again at once; without, there is nothing later that could hide what it lost."""
    nodes, values, back = names(size), Values(rng), 4.5
    node, key = rng.choice(nodes), rng.choice(KEYS)
    others = [name for name in nodes if name != node]
    asks: dict[str, tuple[Ask, ...]] = {
        f"c2{place}": (Ask(node, values.write(key), at=0.5 + 0.3 * place),) for place in range(4)
    }
    if after:
        asks["c25"] = (Ask(node, values.write(key), at=back + 0.001), Ask(node, read(key)))
    for place, name in enumerate(others):
        at = sorted(rng.uniform(0.5, back) for _ in range(3))
        bodies = [read(key), values.write(KEYS[key == "x"]) if place == 0 else read(KEYS[0]), read(key)]
        asks[client_of(name)] = tuple(Ask(name, body, at=time) for body, time in zip(bodies, at, strict=True))
    return Plan(
        members(size, "AP"), {**asks, **readers(nodes, back + AGREED + 0.2)},
        (Mishap("crash", 0.4, back, ((node,),), effects),), seed=seed, healed=back, until=back + AGREED + 4.7,
        label=f"{size} nodes, {node} crashes after {effects} sends and writes, and is back at {back} s",
    )  # fmt: skip


def shown_and_crashed(rng: random.Random, size: int, seed: int) -> Plan:
    """A node shows what another one wrote, is cut off, crashes and comes back: it must still show that, and what is then
    written there is later."""
    nodes, values, key = names(size), Values(rng), rng.choice(KEYS)
    one, other = rng.sample(nodes, 2)
    asks = {
        client_of(one): tuple(Ask(one, values.write(key), at=0.5) for _ in range(6)),
        client_of(other): tuple(
            Ask(other, body, at=at)
            for at, body in ((6.0, read(key)), (7.5, read(key)), (7.7, values.write(key)), (8.0, read(key)))
        ),
    }
    mishaps = (
        Mishap("partition", 6.5, 10.0, ((other,), tuple(node for node in nodes if node != other))),
        Mishap("crash", 7.0, 7.3, ((other,),)),
    )
    return Plan(
        members(size, "AP"), {**asks, **readers(nodes, 10 + AGREED)}, mishaps, seed=seed, healed=10.0,
        until=10 + AGREED + 4.5, label=f"{size} nodes; {other} is cut off from 6.5 to 10 s, crashes at 7 s, and is back at 7.3 s",
    )  # fmt: skip
