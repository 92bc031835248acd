"""GCounter, PNCounter, LWWRegister, ORSet, and GossipStore(Node), which replicates by gossip.

The types are judged as plain classes (see `crdts`), the store by what clients read and what nodes send in virtual time
(see `spreading`).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from grader.exercise import Check, Exercise
from grader.exercises.common import replicas
from grader.exercises.common.nodes import names
from grader.exercises.gossip_crdt import crdts, spreading
from grader.exercises.gossip_crdt.spreading import MANY, PROMPT, View
from grader.nodes.bench import NodeBench
from grader.nodes.clients import Ask
from grader.nodes.network import Network
from grader.nodes.plan import Mishap, Plan, Played
from grader.nodes.runs import judging
from grader.ranks.program import Function, Limits
from grader.trace.story import Story
from grader.verdict import Diagnosis
from grader.worlds.nodes import BothBench, Nodes, NodesAndCalls, of_calls, of_nodes
from grader.worlds.ranks import Ranks

HEALING = 2.0  # seconds in which 64 nodes agree after healing
SETTLED = 5.0  # seconds in which a few nodes do
APART = 30.0  # seconds for which two parts of a few nodes cannot reach each other
FEW = 6
ALL_BUT_ONE = 5
LONG = 20.0  # seconds after which everybody has turned to the one that is cut off
LAST = 1.6  # by then the last operation of an `idle` run has arrived
WINDOW = 8.0  # seconds in which messages of a quiet cluster are counted
MANY_LINKS = Network(least=0.01)  # 64 nodes are quicker simulated where no message is very quick
QUIET = 4.0  # seconds after the last operation, from which on it must be quiet

WORKLOADS = ("g-set", "news"), ("pn-counter", 17)  # and what is added alone
Shape = tuple[int, int, Network, str]  # of a few nodes: how many, in how many parts (0: never cut), and its label
CLEAN, DROPS, LOSES = Network(), Network(drop=0.3), Network(drop=0.3, duplicate=0.3)
PARTED, DROPPED, LOST = "a partition", "messages are dropped until 4 s", "messages are lost and duplicated until 4 s"
SETS: tuple[Shape, ...] = (
    (3, 0, CLEAN, ""), (5, 2, CLEAN, PARTED), (5, 2, CLEAN, PARTED), (2, 2, CLEAN, PARTED),
    (4, 2, DROPS, f"{PARTED}, and {DROPPED}"), (5, 3, CLEAN, f"{PARTED}, and {DROPPED}"),
)  # fmt: skip
COUNTERS: tuple[Shape, ...] = (
    (3, 0, CLEAN, ""), (5, 2, CLEAN, PARTED), (5, 0, LOSES, LOST), (2, 2, LOSES, f"{PARTED}, and {LOST}"),
    (4, 0, LOSES, LOST), (5, 2, LOSES, f"{PARTED}, and {LOST}"),
)  # fmt: skip


def _elements(rng: random.Random) -> list[Any]:
    drawn = [*rng.sample(range(100), 5), *(f"e{each}" for each in rng.sample(range(100), 3)), 7, "7"]
    return list(dict.fromkeys(drawn))


def _deltas(rng: random.Random) -> list[Any]:
    return [*(delta if rng.random() < 0.5 else -delta for delta in rng.sample(range(1, 10**6), 9)), 1, -1, 0]


def _few_plans(
    bench: NodeBench, check: str, workload: str, drawn: Callable[[random.Random], list[Any]], shapes: tuple[Shape, ...]
) -> Iterator[Plan]:
    """Few nodes: without a fault, with partitions, and with messages that are dropped and doubled."""
    for (size, parts, network, label), seed in zip(shapes, bench.seeds(check, len(shapes)), strict=True):
        rng = bench.rng(f"{check} {seed}")
        asks = spreading.adds(rng, workload, names(size), drawn(rng), 3.0)
        asks["r1"] = tuple(Ask(rng.choice(names(size)), {"type": "read"}, rng.uniform(0.1, 0.8)) for _ in range(4))
        members = spreading.members(size, workload, rng)
        groups = spreading.random_groups(rng, names(size), parts, 1) if parts else ()
        yield Plan(
            members, asks, spreading.parted(0.3, 4.0, groups) if parts else (), network, seed, begin=0.3, healed=4.0,
            until=4.0 + SETTLED + PROMPT, label=label,
        )  # fmt: skip


def _small(bench: NodeBench, check: str) -> Plan:
    """A few nodes before the many: a run that is quickly made again, and can be drawn as a whole."""
    seed = bench.seeds(f"{check} small", 1)[0]
    rng = bench.rng(f"{check} {seed}")
    asks = spreading.adds(rng, "g-set", names(FEW), ["a", "b", "c"], 0.8)
    members = spreading.members(FEW, "g-set", rng)
    until = 1.5 + SETTLED + PROMPT
    return Plan(members, asks, (), seed=seed, begin=0.2, healed=1.5, until=until, label=f"{FEW} nodes first")


def _like_parts(bench: NodeBench) -> Iterator[Plan]:
    """Two parts that differ and look alike: in each there is one element, or a sum of 17.

    They are apart for so long that nothing is news any more when they meet, and nobody may have stopped looking.
    """
    for (workload, _), seed in zip(WORKLOADS, bench.seeds("heal small", 2), strict=True):
        rng = bench.rng(f"heal {seed}")
        first, second = groups = spreading.random_groups(rng, names(FEW), 2, 3)
        what: tuple[Any, Any] = ("a", "b") if workload == "g-set" else (17, 17)
        asks = {
            f"c{number}": (spreading.add(workload, rng.choice(part), one, rng.uniform(0, 0.8)),)
            for number, (part, one) in enumerate(zip((first, second), what, strict=True), 1)
        }
        yield Plan(
            spreading.members(FEW, workload, rng), asks, spreading.parted(0.1, APART, groups), seed=seed, begin=0.2,
            healed=APART, until=APART + SETTLED + PROMPT, label=f"{FEW} nodes, a {workload}, one add in each of two parts",
        )  # fmt: skip


def _heal_plans(bench: NodeBench) -> Iterator[Plan]:
    """64 nodes in two or three parts, at last one of them alone; before it, a few of which one is cut off for good."""
    yield from _like_parts(bench)
    yield from _without_one(bench)
    yield from _without_one_for_long(bench)
    shapes = (("g-set", 2, 32), ("pn-counter", 3, 12), ("g-set", 2, 16))
    for (workload, parts, least), seed in zip(shapes, bench.seeds("heal", 3), strict=True):
        rng = bench.rng(f"heal {seed}")
        each: list[Any] = [f"e{one}" for one in range(5)] if workload == "g-set" else rng.sample(range(1, 10**6), 5)
        asks = spreading.adds(rng, workload, names(MANY), each, 3.3)
        groups = spreading.random_groups(rng, names(MANY), parts, least)
        yield Plan(
            spreading.members(MANY, workload, rng), asks, spreading.parted(0.4, 4.0, groups), MANY_LINKS, seed,
            begin=0.5, healed=4.0, until=4.0 + HEALING + PROMPT, label=f"{MANY} nodes, a partition into {parts} parts",
        )  # fmt: skip
    yield _alone(bench)


def _alone(bench: NodeBench) -> Plan:
    """64 nodes, of which one is alone with its own news: whoever hears of it has to tell others."""
    seed = bench.seeds("alone", 1)[0]
    rng = bench.rng(f"alone {seed}")
    node = rng.choice(names(MANY))
    others = tuple(name for name in names(MANY) if name != node)
    return Plan(
        spreading.members(MANY, "g-set", rng), {"c1": (spreading.add("g-set", node, "news", 0.2),)},
        spreading.parted(0.4, 4.0, ((node,), others)), MANY_LINKS, seed, begin=0.5, healed=4.0,
        until=4.0 + HEALING + PROMPT, label=f"{MANY} nodes, one is alone with an add",
    )  # fmt: skip


def _without_one(bench: NodeBench) -> Iterator[Plan]:
    """Each of a few nodes is cut off in turn: the others need none in particular to agree."""
    everyone = names(ALL_BUT_ONE)
    for alone, seed in zip(everyone, bench.seeds("without one", ALL_BUT_ONE), strict=True):
        rng = bench.rng(f"without one {seed}")
        others = [name for name in everyone if name != alone]
        until = 1.0 + SETTLED + PROMPT
        yield Plan(
            spreading.members(ALL_BUT_ONE, "g-set", rng), spreading.adds(rng, "g-set", others, ["a", "b", "c"], 0.8),
            spreading.parted(0.1, until + 1, ((alone,), tuple(others))), seed=seed, begin=0.2, until=until,
            label=f"{ALL_BUT_ONE} nodes, {alone} is cut off for good",
        )  # fmt: skip


def _without_one_for_long(bench: NodeBench) -> Iterator[Plan]:
    """The same; later the others are in two parts for a while. Nobody may have waited for the one that is cut off."""
    everyone = names(ALL_BUT_ONE)
    for alone, seed in zip((everyone[0], everyone[-1]), bench.seeds("without one for long", 2), strict=True):
        rng = bench.rng(f"without one for long {seed}")
        others = [name for name in everyone if name != alone]
        groups = spreading.random_groups(rng, others, 2, 2)
        until = LONG + 1.0 + SETTLED + PROMPT
        cuts = (
            Mishap("partition", 0.1, LONG - 0.001, ((alone,), tuple(others))),
            Mishap("partition", LONG, LONG + 0.999, ((alone,), *groups)),
            Mishap("partition", LONG + 1.0, until + 1, ((alone,), tuple(others))),
        )
        asks = {
            f"c{number}": (spreading.add("g-set", group[0], f"e{number}", 0.5),)
            for number, group in enumerate(groups, 1)
        }
        yield Plan(
            spreading.members(ALL_BUT_ONE, "g-set", rng), asks, cuts, seed=seed, begin=LONG, until=until,
            label=f"{ALL_BUT_ONE} nodes, {alone} is cut off for good, and the others from each other from {LONG:g} to {LONG + 1:g} s",
        )  # fmt: skip


def _lone_plans(bench: NodeBench) -> Iterator[Plan]:
    """64 nodes that have been quiet for a while, and one operation."""
    yield _small(bench, "lone")
    for (workload, what), seed in zip(WORKLOADS, bench.seeds("lone", 2), strict=True):
        rng = bench.rng(f"lone {seed}")
        members = spreading.members(MANY, workload, rng)
        asks = {"c1": (spreading.add(workload, rng.choice(names(MANY)), what, 0.0),)}
        begin, label = rng.uniform(3, 4), f"{MANY} nodes, one add"
        yield Plan(members, asks, (), MANY_LINKS, seed, begin=begin, until=8.0 + PROMPT, label=label)


def _idle_plans(bench: NodeBench) -> Iterator[Plan]:
    """64 nodes, some operations at the same time, whose news arrives here in this order and there in that, then none."""
    yield _small(bench, "idle")
    until, label = LAST + QUIET + WINDOW + PROMPT, f"{MANY} nodes, then no add"
    for (workload, _), seed in zip(WORKLOADS, bench.seeds("idle", 2), strict=True):
        rng = bench.rng(f"idle {seed}")
        members = spreading.members(MANY, workload, rng)
        each: list[Any] = ["a", "b", "c", "d"] if workload == "g-set" else [3, -4, 5, -6]
        asks = {
            f"c{number}": (spreading.add(workload, node, what, 0.5),)
            for number, (node, what) in enumerate(zip(rng.sample(names(MANY), len(each)), each, strict=True), 1)
        }
        yield Plan(members, asks, (), MANY_LINKS, seed, begin=0.5, until=until, label=label)


def _held(
    plans: Callable[[NodeBench], Iterator[Plan]], *judges: Callable[[View], Diagnosis | None]
) -> Callable[[BothBench], Story]:
    """A check: what the first of these finds wrong; of large clusters only some nodes are drawn."""

    def check(bench: NodeBench) -> Story:
        return _hold(bench, plans(bench), *judges)

    return of_nodes(check)


def _hold(bench: NodeBench, plans: Iterator[Plan], *judges: Callable[[View], Diagnosis | None]) -> Story:
    judge = judging(View, *judges)

    def judged(played: Played) -> Diagnosis | None:
        found = judge(played)
        spreading.few(played, [])
        return found

    return bench.hold(plans, judged, spreading.prepare)


def _lone(bench: NodeBench) -> Story:
    return _hold(bench, _lone_plans(bench), partial(spreading.too_dear, bench=bench), spreading.disagreement)


_set_plans = partial(_few_plans, check="g_set", workload="g-set", drawn=_elements, shapes=SETS)
_counter_plans = partial(_few_plans, check="pn_counter", workload="pn-counter", drawn=_deltas, shapes=COUNTERS)


EXERCISE = Exercise(
    name="gossip_crdt",
    chapter="03",
    title="Replicated data types, and a store that gossips",
    minutes=75,
    difficulty=3,
    cost="seconds",
    world=NodesAndCalls(
        Nodes(("GossipStore",)),
        Ranks(
            tuple(Function(name, ()) for name in crdts.MODELS),
            crdts.cases,
            limits=Limits(cpu_seconds=5, load_cpu_seconds=10, idle_seconds=15),
            in_box=replicas.IN_BOX,
        ),
    ),
    checks=(
        Check("counters", "GCounter and PNCounter: what they count", 2, of_calls(replicas.judge("counters"))),
        Check("register", "LWWRegister: the last write, and ties", 2, of_calls(replicas.judge("register"))),
        Check("orset", "ORSet: add wins, removed elements can return", 3, of_calls(replicas.judge("orset"))),
        Check(
            "laws", "merge is commutative, associative, idempotent, and leaves the other alone", 3,
            of_calls(replicas.judge("laws")),
        ),
        Check(
            "json", "By way of JSON and back: equal under every later operation", 2, of_calls(replicas.judge("json"))
        ),
        Check(
            "g_set", "g-set on few nodes: partitions, dropped messages", 2,
            _held(_set_plans, spreading.unanswered, spreading.disagreement),
        ),
        Check(
            "pn_counter", "pn-counter on few nodes: partitions, dropped and doubled messages", 2,
            _held(_counter_plans, spreading.unanswered, spreading.disagreement),
        ),
        Check(
            "heal", "64 nodes agree within 2 s after a partition, a few while one is cut off", 4,
            _held(_heal_plans, spreading.disagreement),
        ),
        Check("lone", "At most 2 N log2 N messages for a lone operation at 64 nodes", 3, of_nodes(_lone)),
        Check(
            "idle", "After that at most one message per node and second", 2,
            _held(_idle_plans, partial(spreading.too_busy, quiet=LAST + QUIET)),
        ),
    ),
)  # fmt: skip
