"""GCounter, PNCounter, LWWRegister, ORSet, and GossipStore(Node), which replicates by gossip.

The types are judged as plain classes (see `_crdts`), the store by what clients read and what nodes send in virtual time
(see `_spreading`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from grader.exercise import Check, Exercise
from grader.exercises.common import replicas
from grader.exercises.gossip_crdt import crdts, spreading
from grader.exercises.gossip_crdt.spreading import MANY, PROMPT
from grader.nodes.bench import NodeBench
from grader.nodes.clients import Ask
from grader.nodes.network import Network
from grader.nodes.plan import Plan, Played
from grader.ranks.program import Function, Limits
from grader.trace.story import Story
from grader.verdict import Diagnosis
from grader.worlds.nodes import Nodes, NodesAndCalls, of_calls, of_nodes
from grader.worlds.ranks import Ranks

Judge = Callable[[NodeBench, Played], Diagnosis | None]
HEALING = 2.0  # seconds in which 64 nodes agree after healing
SETTLED = 5.0  # seconds in which a few nodes do
FEW = 6
ALL_BUT_ONE = 5
LAST = 1.6  # by then the last operation of an `idle` run has arrived
WINDOW = 8.0  # seconds in which messages of a quiet cluster are counted
MANY_LINKS = Network(least=0.01)  # 64 nodes are quicker simulated where no message is very quick
QUIET = 4.0  # seconds after the last operation, from which on it must be quiet


def _names(size: int) -> list[str]:
    return [f"n{number}" for number in range(1, size + 1)]


def _set_plans(bench: NodeBench) -> Iterator[Plan]:
    """Few nodes: without a fault, with partitions, and with messages that are dropped."""
    for number, seed in enumerate(bench.seeds("g_set", 6)):
        rng = bench.rng(f"g_set {seed}")
        size = (3, 5, 5, 2, 4, 5)[number]
        elements: list[Any] = [*rng.sample(range(100), 5), *(f"e{each}" for each in rng.sample(range(100), 3)), 7, "7"]
        asks = spreading.adds(rng, "g-set", _names(size), list(dict.fromkeys(elements)), 3.0)
        asks["r1"] = tuple(Ask(rng.choice(_names(size)), {"type": "read"}, rng.uniform(0.1, 0.8)) for _ in range(4))
        members = spreading.members(size, "g-set", rng)
        groups = spreading.random_groups(rng, _names(size), 2 if number < 5 else 3, 1)
        parted = spreading.parted(0.3, 4.0, groups) if number else ()
        network = Network(drop=0.3) if number == 4 else Network()
        label = "" if not number else "a partition" if number < 4 else "a partition, and messages are dropped until 4 s"
        yield Plan(
            members, asks, parted, network, seed, begin=0.3, healed=4.0, until=4.0 + SETTLED + PROMPT, label=label
        )  # fmt: skip


def _counter_plans(bench: NodeBench) -> Iterator[Plan]:
    """Few nodes: negative deltas, partitions, messages that are lost and doubled."""
    for number, seed in enumerate(bench.seeds("pn_counter", 6)):
        rng = bench.rng(f"pn_counter {seed}")
        size = (3, 5, 5, 2, 4, 5)[number]
        deltas = [delta if rng.random() < 0.5 else -delta for delta in rng.sample(range(1, 10**6), 9)]
        asks = spreading.adds(rng, "pn-counter", _names(size), [*deltas, 1, -1, 0], 3.0)
        asks["r1"] = tuple(Ask(rng.choice(_names(size)), {"type": "read"}, rng.uniform(0.1, 0.8)) for _ in range(4))
        members = spreading.members(size, "pn-counter", rng)
        groups = spreading.random_groups(rng, _names(size), 2, 1)
        parted = spreading.parted(0.3, 4.0, groups) if number % 2 else ()
        network, label = Network(), "a partition" if number % 2 else ""
        if number > 1:
            network = Network(drop=0.3, duplicate=0.3)
            label = f"{label + ', and ' if label else ''}messages are lost and doubled until 4 s"
        yield Plan(
            members, asks, parted, network, seed, begin=0.3, healed=4.0, until=4.0 + SETTLED + PROMPT, label=label
        )  # fmt: skip


def _small(bench: NodeBench, check: str) -> Plan:
    """A few nodes before the many: a run that is quickly made again, and can be drawn as a whole."""
    seed = bench.seeds(f"{check} small", 1)[0]
    rng = bench.rng(f"{check} {seed}")
    asks = spreading.adds(rng, "g-set", _names(FEW), ["a", "b", "c"], 0.8)
    parted = spreading.parted(0.1, 1.5, spreading.random_groups(rng, _names(FEW), 2, 2)) if check == "heal" else ()
    members = spreading.members(FEW, "g-set", rng)
    until = 1.5 + SETTLED + PROMPT
    return Plan(members, asks, parted, seed=seed, begin=0.2, healed=1.5, until=until, label=f"{FEW} nodes first")


def _heal_plans(bench: NodeBench) -> Iterator[Plan]:
    """64 nodes in two or three parts, none of them small; before it, a few of which one is cut off for good."""
    yield _small(bench, "heal")
    yield from _without_one(bench)
    for number, seed in enumerate(bench.seeds("heal", 3)):
        rng = bench.rng(f"heal {seed}")
        workload = ("g-set", "pn-counter", "g-set")[number]
        each: list[Any] = [f"e{one}" for one in range(5)] if workload == "g-set" else rng.sample(range(1, 10**6), 5)
        asks = spreading.adds(rng, workload, _names(MANY), each, 3.3)
        parts, least = ((2, 32), (3, 12), (2, 16))[number]
        groups = spreading.random_groups(rng, _names(MANY), parts, least)
        yield Plan(
            spreading.members(MANY, workload, rng), asks, spreading.parted(0.4, 4.0, groups), MANY_LINKS, seed,
            begin=0.5, healed=4.0, until=4.0 + HEALING + PROMPT, label=f"{MANY} nodes, a partition into {parts} parts",
        )  # fmt: skip


def _without_one(bench: NodeBench) -> Iterator[Plan]:
    """Each of a few nodes is cut off in turn: the others need none in particular to agree."""
    names = _names(ALL_BUT_ONE)
    for alone, seed in zip(names, bench.seeds("without one", len(names)), strict=True):
        rng = bench.rng(f"without one {seed}")
        others = [name for name in names if name != alone]
        until = 1.0 + SETTLED + PROMPT
        yield Plan(
            spreading.members(ALL_BUT_ONE, "g-set", rng), spreading.adds(rng, "g-set", others, ["a", "b", "c"], 0.8),
            spreading.parted(0.1, until + 1, ((alone,), tuple(others))), seed=seed, begin=0.2, until=until,
            label=f"{ALL_BUT_ONE} nodes, {alone} is cut off for good",
        )  # fmt: skip


def _lone_plans(bench: NodeBench) -> Iterator[Plan]:
    """64 nodes that have been quiet for a while, and one operation."""
    yield _small(bench, "lone")
    for number, seed in enumerate(bench.seeds("lone", 2)):
        rng = bench.rng(f"lone {seed}")
        workload = ("g-set", "pn-counter")[number]
        members = spreading.members(MANY, workload, rng)
        what = "news" if workload == "g-set" else 17
        asks = {"c1": (spreading.add(workload, rng.choice(_names(MANY)), what, 0.0),)}
        yield Plan(
            members, asks, (), MANY_LINKS, seed, begin=rng.uniform(3, 4), until=8.0 + PROMPT,
            label=f"{MANY} nodes, one add",
        )  # fmt: skip


def _idle_plans(bench: NodeBench) -> Iterator[Plan]:
    """64 nodes, some operations, and then none."""
    yield _small(bench, "idle")
    for number, seed in enumerate(bench.seeds("idle", 2)):
        rng = bench.rng(f"idle {seed}")
        workload = ("g-set", "pn-counter")[number]
        members = spreading.members(MANY, workload, rng)
        each: list[Any] = ["a", "b"] if workload == "g-set" else [3, -4]
        asks = spreading.adds(rng, workload, _names(MANY), each, 1.0)
        yield Plan(
            members, asks, (), MANY_LINKS, seed, begin=0.5, until=LAST + QUIET + WINDOW + PROMPT,
            label=f"{MANY} nodes, then no add",
        )  # fmt: skip


def _hold(bench: NodeBench, plans: Iterator[Plan], *judges: Judge) -> Story:
    def judged(played: Played) -> Diagnosis | None:
        found = next((found for judge in judges if (found := judge(bench, played)) is not None), None)
        spreading.few(played, [])
        return found

    return bench.hold(plans, judged, spreading.prepare)


def _dear(bench: NodeBench, played: Played) -> Diagnosis | None:
    return spreading.too_dear(bench, played) if len(played.sim.names) == MANY else None


def _quiet(bench: NodeBench, played: Played) -> Diagnosis | None:
    if len(played.sim.names) < MANY or not spreading.operations(played):
        return None
    return spreading.too_busy(bench, played, LAST + QUIET)


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
        Check(
            "counters",
            "GCounter and PNCounter: what they count",
            2,
            of_calls(partial(replicas.judged, group="counters")),
        ),
        Check(
            "register", "LWWRegister: the last write, and ties", 2, of_calls(partial(replicas.judged, group="register"))
        ),
        Check(
            "orset",
            "ORSet: add wins, removed elements can return",
            3,
            of_calls(partial(replicas.judged, group="orset")),
        ),
        Check(
            "laws",
            "merge is commutative, associative, idempotent, and leaves the other alone",
            3,
            of_calls(partial(replicas.judged, group="laws")),
        ),
        Check(
            "json",
            "By way of JSON and back: equal under every later operation",
            2,
            of_calls(partial(replicas.judged, group="json")),
        ),
        Check(
            "g_set",
            "g-set on few nodes: partitions, dropped messages",
            2,
            of_nodes(lambda bench: _hold(bench, _set_plans(bench), spreading.unanswered, spreading.disagreement)),
        ),
        Check(
            "pn_counter",
            "pn-counter on few nodes: partitions, dropped and doubled messages",
            2,
            of_nodes(lambda bench: _hold(bench, _counter_plans(bench), spreading.unanswered, spreading.disagreement)),
        ),
        Check(
            "heal",
            "64 nodes agree within 2 s after a partition, a few while one is cut off",
            4,
            of_nodes(lambda bench: _hold(bench, _heal_plans(bench), spreading.disagreement)),
        ),
        Check(
            "lone",
            "At most 2 N log2 N messages for a lone operation at 64 nodes",
            3,
            of_nodes(lambda bench: _hold(bench, _lone_plans(bench), _dear, spreading.disagreement)),
        ),
        Check(
            "idle",
            "After that at most one message per node and second",
            2,
            of_nodes(lambda bench: _hold(bench, _idle_plans(bench), _quiet)),
        ),
    ),
)
