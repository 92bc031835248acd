"""A run of simulated nodes as plain data: who asks what when, and what befalls whom. It can be kept as a file, played
again, and made smaller for as long as it shows the same thing.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from grader.nodes.actors import Actors
from grader.nodes.clients import Ask, Client
from grader.nodes.network import Network, bridge, one_way
from grader.nodes.sim import Member, Simulation
from grader.nodes.smaller import fewer, smallest
from grader.trace.story import Fault

MOST_TRIES = 150  # runs, to make one plan smaller


MISHAPS = ("partition", "one-way", "bridge", "crash", "pause")


@dataclass(frozen=True)
class Mishap:
    """What befalls nodes from `at` on, until `until`.

    partition: `groups` cannot reach each other; one-way: nothing gets from the first group to the second; bridge: two
    halves of the first group and a node that reaches both; crash: the nodes of the first group, at `at`, or (`after`)
    when one has sent or written so many times, back at `until`; pause: they stand still.

    Who is meant may be found out at `at` (see `Simulation.whom`): "leader"; a group of "*" alone are all nodes that are
    in none before it. Then `after` counts from `at` on, and at `until` all is whole.
    """

    what: str
    at: float
    until: float
    groups: tuple[tuple[str, ...], ...]
    after: int | None = None

    def named(self, sim: Simulation) -> bool:
        """Whether its nodes are given by their names."""
        return all(node in sim.places for group in self.groups for node in group)

    def begin(self, sim: Simulation) -> None:
        groups = self.groups if self.named(sim) else _meant(self.groups, sim)
        first = groups[0]
        match self.what:
            case "partition":
                sim.partition(*groups)
            case "one-way":
                fault = Fault("one-way", sim.time, sim.time, groups)
                sim.cut(one_way(first, groups[1]), fault)
            case "bridge":
                sim.cut(bridge(first), Fault("partition", sim.time, sim.time, (first,), "bridge"))
            case "crash":
                for node in first:
                    since = 0 if self.named(sim) else sim.places[node].done
                    sim.crash(node) if self.after is None else sim.crash_after(node, since + self.after)
            case "pause":
                for node in first:
                    sim.pause(node)
            case _:
                raise ValueError(f"no such mishap: {self.what!r}")

    def end(self, sim: Simulation) -> None:
        if not self.named(sim):
            whole(sim)
            return
        match self.what:
            case "crash":
                for node in self.groups[0]:
                    sim.restart(node)
            case "pause":
                for node in self.groups[0]:
                    sim.resume(node)
            case _:
                sim.heal()


def _meant(groups: tuple[tuple[str, ...], ...], sim: Simulation) -> tuple[tuple[str, ...], ...]:
    """Groups with the names of who is meant."""
    found: list[tuple[str, ...]] = []
    for group in groups:
        taken = {node for other in found for node in other}
        left = tuple(node for node in sim.names if node not in taken)
        found.append(left if group == ("*",) else tuple(dict.fromkeys(sim.whom(node) for node in group)))
    return tuple(found)


@dataclass(frozen=True)
class Plan:
    """All that decides a run.

    `asks` are each client's requests, one after another, from `begin` on; `until` is when the run ends. What was cut,
    stopped or killed is whole again at `healed`, if that is not None.
    """

    members: tuple[Member, ...]
    asks: Mapping[str, tuple[Ask, ...]] = field(default_factory=dict)
    mishaps: tuple[Mishap, ...] = ()
    network: Network = field(default_factory=Network)
    seed: int = 0
    begin: float = 0.0
    healed: float | None = None
    until: float = 30.0
    wait: float = 5.0
    label: str = ""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, told: dict[str, Any]) -> Plan:
        """The inverse of `to_json`. Raises KeyError, TypeError or ValueError on anything else."""
        return cls(**{
            **told,
            "members": tuple(Member(**{**one, "peers": tuple(one["peers"])}) for one in told["members"]),
            "asks": {client: tuple(Ask(**ask) for ask in asks) for client, asks in told["asks"].items()},
            "mishaps": tuple(
                Mishap(**{**one, "groups": tuple(tuple(group) for group in one["groups"])}) for one in told["mishaps"]
            ),
            "network": Network(**told["network"]),
        })  # fmt: skip


@dataclass
class Played:
    """A plan that was carried out: the simulation, its clients by name, and what `prepare` noted for the judge."""

    plan: Plan
    sim: Simulation
    clients: dict[str, Client]
    notes: Any = None

    @property
    def history(self) -> list[dict[str, Any]]:
        return self.sim.story.history


Prepare = Callable[[Played], None]


def play(plan: Plan, actors: Actors, file: str = "", prepare: Prepare = lambda _: None) -> Played:
    """Carry a plan out. `prepare` may add what is no data before time begins. Raises Lost."""
    sim = Simulation(actors, plan.members, plan.seed, plan.network, file)
    clients = {name: Client(sim, name, asks, plan.begin, plan.wait) for name, asks in plan.asks.items()}
    played = Played(plan, sim, clients)
    for mishap in plan.mishaps:
        sim.at(mishap.at, _bound(mishap.begin, sim))
        sim.at(mishap.until, _bound(mishap.end, sim))
    if plan.healed is not None:
        sim.at(plan.healed, lambda: whole(sim))
    try:
        prepare(played)
        sim.run(plan.until)
        sim.finished()
    except BaseException:  # also where nobody waits for this run any more
        sim.let_go()
        played.notes = None
        raise
    return played


def _bound(act: Callable[[Simulation], None], sim: Simulation) -> Callable[[], None]:
    return lambda: act(sim)


def whole(sim: Simulation) -> None:
    """Every link works, every node is up and goes on."""
    sim.heal()
    for name, place in sim.places.items():
        place.crash_after = None
        sim.resume(name)
        sim.restart(name)


def minimise(plan: Plan, fails: Callable[[Plan], bool], tries: int = MOST_TRIES) -> Plan:
    """A smaller plan that still `fails`: without the mishaps and requests that do not matter. Its runs are as random as
    before, by the same seed. Every single thing that is left matters, unless `tries` ran out."""
    return smallest(plan, _smaller, lambda candidate: candidate if fails(candidate) else None, tries)


def _smaller(plan: Plan) -> Iterator[Plan]:
    """Plans with something left out, the most first."""
    if plan.network.duplicate:
        yield replace(plan, network=replace(plan.network, duplicate=0.0))
    if plan.network.drop:
        yield replace(plan, network=replace(plan.network, drop=0.0))
    for kept in fewer(plan.mishaps):
        yield replace(plan, mishaps=tuple(kept))
    for client in plan.asks:
        if len(plan.asks) > 1:
            yield replace(plan, asks={name: asks for name, asks in plan.asks.items() if name != client})
    for client, asks in plan.asks.items():
        for some in fewer(asks):
            yield replace(plan, asks={**plan.asks, client: tuple(some)})


def random_mishaps(
    rng: random.Random, names: Sequence[str], kinds: Sequence[str], since: float, until: float,
    lasting: tuple[float, float] = (0.3, 2.0), pause: tuple[float, float] = (0.1, 1.0), most_down: int | None = None,
) -> tuple[Mishap, ...]:  # fmt: skip
    """Mishaps of these kinds, one after another between two times; at most `most_down` nodes crash or stop at once."""
    found: list[Mishap] = []
    time = since + rng.uniform(*pause)
    most = max(1, (len(names) - 1) // 2) if most_down is None else most_down
    while True:
        end = time + rng.uniform(*lasting)
        if end > until:
            return tuple(found)
        kind, order = rng.choice(list(kinds)), rng.sample(list(names), len(names))
        groups: tuple[tuple[str, ...], ...]
        match kind:
            case "partition":
                middle = rng.randint(1, len(order) - 1)
                groups = (tuple(sorted(order[:middle])), tuple(sorted(order[middle:])))
            case "one-way":
                groups = ((order[0],), tuple(sorted(order[1:])))
                groups = groups if rng.random() < 0.5 else (groups[1], groups[0])
            case "bridge":
                groups = (tuple(order),)
            case _:
                groups = (tuple(sorted(order[: rng.randint(1, most)])),)
        found.append(Mishap(kind, time, end, groups))
        time = end + rng.uniform(*pause)
