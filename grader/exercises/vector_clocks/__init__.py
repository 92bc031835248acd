"""VectorClock, and CausalBroadcast(Node), which delivers every message on every node in causal order.

The clocks are judged as plain classes (see `clocks`), the broadcast by what nodes deliver in virtual time (see
`causal`).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from grader.exercise import Check, Exercise
from grader.exercises.common import replicas
from grader.exercises.common.nodes import Plans, bounded, held, skewed
from grader.exercises.vector_clocks import causal, clocks
from grader.exercises.vector_clocks.causal import View
from grader.nodes.bench import NodeBench
from grader.nodes.clients import Ask
from grader.nodes.network import Network
from grader.nodes.plan import Plan, Played
from grader.nodes.runs import in_time
from grader.nodes.sim import cluster
from grader.ranks.program import Function, Limits
from grader.trace.story import Sent, Story
from grader.verdict import Diagnosis
from grader.worlds.nodes import BothBench, Nodes, NodesAndCalls, of_calls, of_nodes
from grader.worlds.ranks import Ranks

NODE = "CausalBroadcast"
LONG = 25.0  # virtual seconds after the network is whole again, by which all is delivered
MORE = 2.0  # seconds that a run goes on when all is delivered: what comes again, comes then
PROMPT = 2.0
MOST = 40_000  # messages of a run, after which it is ended


@dataclass(frozen=True)
class Slow:
    """What `src` sends to `dst` before `until`, and holds this text, takes `delay` seconds, and comes so many times."""

    src: str
    dst: str
    until: float
    delay: float
    text: str = ""
    times: int = 1


def _say(node: str, after: float, message: Any) -> Ask:
    return Ask(node, {"type": "broadcast", "message": message}, after)


Asks = dict[str, tuple[Ask, ...]]
_ONE_SENDER: Asks = {"c1": tuple(_say("n1", 0.4 if number else 0.2, f"a{number + 1}") for number in range(3))}
Scripts = dict[str, tuple[int, Asks, tuple[Slow, ...]]]  # by label: how many nodes, who says what, what is slow
SCRIPTED: Scripts = {
    "an answer overtakes the question: n1 to n3 is slow": (
        3, {"c1": (_say("n1", 0.2, "question"),), "c2": (_say("n2", 0.9, "answer"),)}, (Slow("n1", "n3", 2.8, 2.5),),
    ),
    "a chain of three: n1 to n4 is slower than n2 to n4": (
        4, {f"c{n}": (_say(f"n{n}", 0.5 * n, "xyz"[n - 1]),) for n in (1, 2, 3)},
        (Slow("n1", "n4", 4.0, 3.5), Slow("n2", "n4", 3.5, 2.4)),
    ),
    "two of one sender: the first is slow to n2": (3, _ONE_SENDER, (Slow("n1", "n2", 0.25, 1.5),)),
    "three of one sender arrive in the opposite order": (
        3, _ONE_SENDER,
        (Slow("n1", "n2", 0.25, 3.0), Slow("n1", "n2", 0.65, 2.0), Slow("n1", "n2", 1.05, 1.0)),
    ),
    "n4 hears nobody for three seconds, while the others answer each other": (
        4, {f"c{n}": tuple(_say(f"n{n}", 0.3, f"{'xyz'[n - 1]}{i}") for i in range(4)) for n in (1, 2, 3)},
        tuple(Slow(src, "n4", 3.0, 3.5) for src in ("n1", "n2", "n3")),
    ),
    "n2 answers the eleventh of n1: the tenth and eleventh are slow from n1 to n3": (
        3,
        {
            "c1": tuple(_say("n1", 0.05, f"{'late' if number > 9 else 'a'}{number}") for number in range(1, 12)),
            "c2": (_say("n2", 2.5, "answer"),),
        },
        (Slow("n1", "n3", 3.5, 2.5, "late"),),
    ),
}  # fmt: skip
AGAIN = "the second of one sender comes to n2 three times, before the first"
SCRIPTED_ONCE: Scripts = {
    AGAIN: (3, _ONE_SENDER, (Slow("n1", "n2", 2.5, 0.02, "a2", 3), Slow("n1", "n2", 2.5, 2.0, "a1"))),
}
MANY = 16  # more than a short buffer of what is to be sent again holds
SCRIPTED_DROPS: Scripts = {
    f"n1 broadcasts {MANY} times while n2 hears nobody": (
        3, {"c1": tuple(_say("n1", 0.1, f"a{number + 1}") for number in range(MANY))},
        (Slow("n1", "n2", 4.0, 0.0, times=0), Slow("n3", "n2", 4.0, 0.0, times=0)),
    ),
    "two nodes: for a second, all that holds the first of three messages is lost": (
        2, {"c1": tuple(_say("n1", 0.05, text) for text in ("first of three", "second", "third"))},
        (Slow("n1", "n2", 1.1, 0.0, "first of three", times=0),),
    ),
    **{
        # when the first one comes at last, nothing else does: of all that wait for it, each must find its turn then
        f"a chain of three, {first} is answered by n2 and that by {last}: n4 hears nothing of {first} for three seconds": (
            4, {f"c{node[1]}": (_say(node, 0.5 * place, text),)
                for place, (node, text) in enumerate(zip((first, "n2", last), "xyz", strict=True), 1)},
            (Slow(first, "n4", 3.0, 0.0, times=0),),
        )
        for first, last in (("n1", "n3"), ("n3", "n1"))
    },
    "two nodes: n2 hears nothing for twelve seconds": (
        2, {"c1": (_say("n1", 0.05, "patience"),)}, (Slow("n1", "n2", 12.0, 0.0, times=0),),
    ),
}  # fmt: skip
Row = tuple[int, Network, str]  # how many nodes (0: drawn), which network, and its label
ORDERS: tuple[Row, ...] = (
    *[(0, Network(most=1.0), "messages take up to a second")] * 2,
    (0, Network(most=0.4, drop=0.3, duplicate=0.2), "messages are late, lost and duplicated"),
) * 4
DROPS: tuple[Row, ...] = tuple(
    (size, Network(drop=drop), f"{drop:.0%} of the messages are dropped")
    for size, drop in ((3, 0.3), (4, 0.5), (5, 0.2), (2, 0.4))
) * 2  # fmt: skip
TWICE = Network(most=0.5, duplicate=0.5), "half of the messages arrive twice"
LOST_AND_TWICE = Network(most=0.3, drop=0.3, duplicate=0.3), "messages are lost and duplicated"
DOUBLES: tuple[Row, ...] = ((3, *TWICE), (4, *LOST_AND_TWICE), (5, *TWICE), (2, *LOST_AND_TWICE)) * 2


def _talk(rng: random.Random, size: int, each: int, gap: float) -> Asks:
    """Every client broadcasts some messages at random times, no two alike."""
    return {
        f"c{n}": tuple(_say(f"n{n}", rng.uniform(0, gap), f"{'abcde'[n - 1]}{one}") for one in range(1, each + 1))
        for n in range(1, size + 1)
    }  # fmt: skip


def _quiet_plans(bench: NodeBench) -> Iterator[Plan]:
    for number, seed in enumerate(bench.seeds("delivers", 5)):
        rng = bench.rng(f"delivers {seed}")
        size = (3, 5, 2, 4, 3)[number]
        asks = _talk(rng, size, 3, 0.3)
        if number == 1:  # equal texts, of one client and of several
            asks = {
                c: tuple(_say(one.node, one.after, rng.choice(["yes", "no"])) for one in a) for c, a in asks.items()
            }
        if number == 4:
            odd: list[Any] = [0, "", False, [1, [2]], {"a": {"b": None}}, -1.5, "message", "1", "ü"]
            rng.shuffle(odd)
            asks = {c: tuple(_say(ask.node, ask.after, odd.pop()) for ask in a) for c, a in asks.items()}
        label = {1: "equal texts", 4: "messages of all kinds"}.get(number, "")
        yield Plan(skewed(cluster(size, NODE), rng), asks, seed=seed, begin=0.2, healed=2.0, until=12.0, label=label)


def _order_plans(bench: NodeBench) -> Iterator[Plan]:
    """Scripted delays, and random ones; where messages are lost or come twice, only the order is judged."""
    yield from _scripted("order", SCRIPTED)(bench)
    yield from _talks("order", ORDERS, 4, 0.8, 5.0)(bench)


def _drop_plans(bench: NodeBench) -> Iterator[Plan]:
    yield from _talks("drops", DROPS, 3, 0.5, 4.0)(bench)
    yield from _scripted("drops", SCRIPTED_DROPS)(bench)


def _once_plans(bench: NodeBench) -> Iterator[Plan]:
    yield from _talks("once", DOUBLES, 3, 0.6, 5.0)(bench)
    yield from _scripted("once", SCRIPTED_ONCE)(bench)


def _scripted(check: str, scripts: Scripts) -> Plans:
    """Runs whose delays are given."""

    def given(bench: NodeBench) -> Iterator[Plan]:
        for label, (size, asks, _) in scripts.items():
            seed = bench.rng(f"{check} {label}").randrange(2**31)
            yield Plan(cluster(size, NODE), asks, seed=seed, healed=0.0, until=LONG, label=label)

    return given


def _talks(check: str, rows: Sequence[Row], each: int, gap: float, healed: float) -> Plans:
    """Nodes that all talk at random times in such networks."""

    def drawn(bench: NodeBench) -> Iterator[Plan]:
        for (size, network, label), seed in zip(rows, bench.seeds(check, len(rows)), strict=True):
            rng = bench.rng(f"{check} {seed}")
            members = skewed(cluster(size or rng.choice((3, 4, 5)), NODE), rng)
            asks, until = _talk(rng, len(members), each, gap), healed + LONG
            yield Plan(members, asks, network=network, seed=seed, healed=healed, until=until, label=label)

    return drawn


def _prepare(played: Played) -> None:
    """Slow links; a network that neither drops nor doubles from `healed` on; and an end once all is delivered."""
    sim, plan = played.sim, played.plan
    _, _, slow = (SCRIPTED | SCRIPTED_ONCE | SCRIPTED_DROPS).get(plan.label, (0, {}, ()))
    rng = random.Random(f"slow {plan.seed}")
    bounded(played, MOST)

    def route(sent: Sent) -> list[float] | None:
        for link in slow:
            if (sent.src, sent.dst) == (link.src, link.dst) and sim.time < link.until and link.text in str(sent.body):
                return [link.delay + rng.uniform(0, 0.05) for _ in range(link.times)]
        return None

    def mend() -> None:
        sim.network = Network(most=min(plan.network.most, 0.05) if plan.network.drop else plan.network.most)

    def look() -> None:
        run = View(played)
        if run.wanted.total() == sum(map(len, plan.asks.values())) and run.complete:
            sim.at(sim.time + MORE, sim.stop)
        else:
            sim.at(sim.time + 0.5, look)

    sim.route = route
    sim.at(plan.healed or 0.0, mend)
    sim.at(1.0, look)


def _judged(plans: Plans, judge: Callable[[View], Diagnosis | None]) -> Callable[[BothBench], Story]:
    return of_nodes(held(plans, View, judge, prepare=_prepare))


def _delivers(run: View) -> Diagnosis | None:
    for asked in (asked for client in run.played.clients.values() for asked in client.done):
        kind = asked.answer.get("type") if asked.answer is not None else None
        if kind != "broadcast_ok" or not in_time(asked, PROMPT):
            did = f"answered {kind!r} after {asked.seconds or 0:.2f} s" if kind is not None else "did not answer"
            text = (
                f"{asked.ask.node} {did} when {asked.client} sent it {asked.ask.body} at {asked.sent:.2f} s. Answer every "
                f"broadcast with broadcast_ok within {PROMPT:g} s. Call reply(body, ...) for that."
            )
            return run.wrong("not_available", text, expected="broadcast_ok", got=str(kind))
    return causal.missing(run) or causal.doubled(run)


def _ordered(run: View) -> Diagnosis | None:
    """Causal order; and all is delivered in the end where no message was lost."""
    return causal.disorder(run) or (None if run.plan.network.drop else causal.missing(run))


EXERCISE = Exercise(
    name="vector_clocks",
    chapter="03",
    title="Vector clocks, and a broadcast in causal order",
    minutes=60,
    difficulty=2,
    cost="seconds",
    world=NodesAndCalls(
        Nodes((NODE,)),
        Ranks(
            (Function("VectorClock", ()),),
            clocks.cases,
            limits=Limits(cpu_seconds=5, load_cpu_seconds=10, idle_seconds=15),
            in_box=replicas.IN_BOX,
        ),
    ),
    checks=(
        Check("compare", "Before, after, equal or concurrent", 3, of_calls(replicas.judge("compare"))),
        Check("merge", "The entrywise maximum, and nothing shared", 3, of_calls(replicas.judge("merge"))),
        Check("delivers", "No faults: everything is delivered on every node, once", 3, _judged(_quiet_plans, _delivers)),
        Check(
            "order", "Delays to 3.5 s, reordering, drops, duplicates: never out of causal order", 5,
            _judged(_order_plans, _ordered),
        ),
        Check(
            "drops", "Up to half of the messages dropped: everything is delivered in the end", 3,
            _judged(_drop_plans, causal.missing),
        ),
        Check("once", "Drops and duplicates: each message is delivered once", 3, _judged(_once_plans, causal.doubled)),
    ),
)  # fmt: skip
