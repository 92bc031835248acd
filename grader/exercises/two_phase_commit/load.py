"""Plans of a steady load: something fails for a moment while transactions are open, and then new ones, on keys of their
own, begin several times a second. None of that may keep the first ones open: a timer that every new one moves never goes off.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from grader.exercises.common.nodes import effects_of, names
from grader.exercises.two_phase_commit.history import COORDINATOR, DECIDED
from grader.exercises.two_phase_commit.plans import FAST, begin, crash, crashes_label, members, named, reads
from grader.nodes.bench import NodeBench
from grader.nodes.clients import Ask
from grader.nodes.life import Step
from grader.nodes.plan import Mishap, Plan, Played
from grader.trace.story import Sent

FAILS, WHOLE = 1.0, 1.1  # what fails, does so in between: too short a time for a timer to go off
EVERY = 0.2  # seconds between two transactions of the load
MANY = 24  # transactions that are in doubt at once
CLIENTS = 6  # that begin them in turn, so that none waits for its last answer
MOST_POINTS = {COORDINATOR: 8, "n1": 4}  # at which each of them crashes
TOLD, ASKED, VOTED = "what is sent to n1 once it has sent something", "what is sent to n1", "what n1 sends"


def under_load(
    rng: random.Random, seed: int, mishaps: tuple[Mishap, ...] = (), lost: str = "", load: bool = True
) -> Plan:
    """Three transactions are open when nodes fail, or when what `lost` says is lost. When 5 s have passed, another one
    wants all their keys. Without `load` all is read before: what is wrong then, is not for the load's sake."""
    nodes = names(2)
    one, two, three, last = named(rng, "first", "second", "third", "last")
    late = WHOLE + DECIDED + 0.8
    keys = {"x": one, "y": two, "z": three}
    asks: dict[str, tuple[Ask, ...]] = {
        client: (begin(name, {node: {key: f"of {key}"} for node in nodes}, FAILS + 0.002 * place),)
        for place, (client, (key, name)) in enumerate(zip(("alice", "bob", "carol"), keys.items(), strict=True))
    }
    asks["dave"] = (begin(last, {node: dict.fromkeys(keys, "last") for node in nodes}, late),)
    label = crashes_label(mishaps) if mishaps else f"From {FAILS:g} to {WHOLE:g} s {lost} is lost."
    if load:
        times = [WHOLE + EVERY * number for number in range(int((late + 1 - WHOLE) / EVERY))]
        more = [begin(f"load {at:.1f}", {node: {f"k{at:.1f}": at} for node in nodes}, at) for at in times]
        asks |= {f"load{number + 1}": tuple(more[number::CLIENTS]) for number in range(CLIENTS)}
    else:
        asks["erin"] = reads(nodes, tuple(keys), WHOLE + DECIDED + 0.1)
    return Plan(members(rng, nodes), asks, mishaps, FAST, seed, healed=WHOLE, until=late + 3, label=label)


def many_in_doubt(rng: random.Random, seed: int) -> Plan:
    """A participant has voted yes on many transactions, and is down when their outcomes are told. All of them are over in
    time, and not one after another."""
    near, slow = nodes = names(2)
    keys = dict(zip((f"k{number}" for number in range(MANY)), named(rng, *["many"] * MANY), strict=True))
    back = FAILS + 0.5
    asks = {
        f"client{place}": (begin(name, {node: {key: f"of {key}"} for node in nodes}, FAILS + 0.001 * place),)
        for place, (key, name) in enumerate(keys.items())
    }
    late = back + DECIDED + 0.2
    asks["dave"] = (begin("last", {node: dict.fromkeys(keys, "last") for node in nodes}, late),)
    label = (
        f"Messages to and from {slow} take 49 ms, others 1 to 5 ms; {near} is down from {FAILS + 0.06:g} to {back:g} s"
    )
    down = Mishap("crash", FAILS + 0.06, back, ((near,),))
    return Plan(members(rng, nodes), asks, (down,), FAST, seed, until=late + 3, label=label)


def crashing(bench: NodeBench) -> Iterator[Plan]:
    """The coordinator, or a participant, crashes after one of its first sends and writes, and is back at once."""
    [seed] = bench.seeds("load", 1)
    done = effects_of(bench, under_load(bench.rng("load"), seed, load=False))
    for node, most in MOST_POINTS.items():
        times = [time for time, name, effects in done if name == node for _ in range(effects)]
        points = [number for number, time in enumerate(times, 1) if FAILS <= time < WHOLE]
        for effects in _spread(points, most):
            for load in (False, True):
                yield under_load(bench.rng("load"), seed, (crash(node, effects, WHOLE),), load=load)


def _spread(points: Sequence[int], most: int) -> Sequence[int]:
    """At most so many of them, as far apart as they can be."""
    return points if len(points) <= most else [points[len(points) * place // most] for place in range(most)]


def losing(bench: NodeBench) -> Iterator[Plan]:
    """Messages are lost for a moment: outcomes, questions, or votes."""
    for lost, seed in zip((TOLD, ASKED, VOTED), bench.seeds("load lost", 3), strict=True):
        for load in (False, True):
            yield under_load(bench.rng(f"load {lost}"), seed, lost=lost, load=load)


def lose(played: Played) -> None:
    """What the label of `under_load` says of messages."""
    sim, label = played.sim, played.plan.label
    spoke = False

    def look(node: str, step: Step) -> None:
        nonlocal spoke
        spoke = spoke or (node == "n1" and sim.time >= FAILS and any(effect[0] == "send" for effect in step.effects))

    def route(sent: Sent) -> list[float] | None:
        if not FAILS <= sent.sent < WHOLE:
            return None
        lost = sent.src == "n1" if VOTED in label else sent.dst == "n1" and (spoke or TOLD not in label)
        return [] if lost else None

    sim.on_step.append(look)
    sim.route = route
