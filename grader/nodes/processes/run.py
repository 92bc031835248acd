"""One run: start the nodes, make requests among faults, heal, wait until all agree, judge."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from grader.nodes.processes import nemesis
from grader.nodes.processes.clients import Clients
from grader.nodes.processes.cluster import Cluster, Trouble
from grader.nodes.processes.loop import Loop
from grader.nodes.processes.network import CLIENTS, NODES, SERVICES, Network, Traffic, Weather
from grader.nodes.workloads.figures import figures
from grader.nodes.workloads.topology import TOPOLOGIES
from grader.nodes.workloads.workload import Event, Judgement, Workload, calls
from grader.trace.story import Fault

TWICE = 2  # rounds of final reads that must be right, one after the other: a late duplicate would spoil the second

CLEAR = Weather()


@dataclass(frozen=True)
class Settings:
    """What is to be run. Times in seconds; `rate` in requests a second over all clients."""

    workload: Workload
    command: tuple[str, ...]
    nodes: int = 3
    kinds: tuple[str, ...] = ()  # of nemesis.KINDS
    interval: float = 2.0  # that a fault lasts at the mean
    rate: float = 20.0
    seconds: float = 10.0
    weather: Weather = CLEAR
    topology: str = "grid"
    seed: int = 0
    init_seconds: float = 10.0
    settle_seconds: float = 10.0  # after the faults, in which all nodes are to agree; Maelstrom waits as long
    environment: Mapping[str, str] | None = None  # this process's own if None

    @property
    def request_seconds(self) -> float:
        """How long a client waits for an answer; as Maelstrom's lin-kv client does."""
        return max(1.0, 10 * self.weather.latency)

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(f"n{k}" for k in range(1, self.nodes + 1))


@dataclass(frozen=True)
class Outcome:
    """What came of a run. `convergence` is seconds from the end of the faults until all final reads were right."""

    settings: Settings
    judgement: Judgement
    trouble: Trouble | None
    events: list[Event]
    faults: tuple[Fault, ...]
    traffic: Traffic
    convergence: float | None
    seconds: float
    late_answers: int
    logs: dict[str, str] = field(repr=False)

    @property
    def right(self) -> bool:
        return self.judgement.valid is True

    def messages(self) -> dict[str, Any]:
        """Messages before the final reads: with whom, and a request's share of nodes' and services', and of all."""
        sent = self.traffic.sent
        requests = sum(event["type"] == "invoke" and not event.get("final") for event in self.events)
        servers = sent[NODES] + sent[SERVICES]
        return {
            "between_nodes": sent[NODES],
            "with_services": sent[SERVICES],
            "with_clients": sent[CLIENTS],
            "per_operation": servers / requests if requests else None,
            "all_per_operation": (servers + sent[CLIENTS]) / requests if requests else None,
            "by_type": dict(self.traffic.types.most_common()),
            "dropped": self.traffic.dropped,
            "duplicated": self.traffic.duplicated,
            "cut_off": self.traffic.cut,
            "undelivered": self.traffic.undelivered,
            "late_answers": self.late_answers,
        }

    def to_json(self) -> dict[str, Any]:
        """Everything but the events and logs."""
        settings = self.settings
        return {
            "valid": self.judgement.valid,
            "reason": self.judgement.reason,
            "kind": self.trouble.kind if self.trouble else None,
            "node": self.trouble.node if self.trouble else None,
            "workload": settings.workload.name,
            "nodes": settings.nodes,
            "seed": settings.seed,
            "seconds": self.seconds,
            **figures(calls(self.events)),
            "convergence_seconds": self.convergence,
            "messages": self.messages(),
            "figures": self.judgement.figures,
            "faults": [_told(fault) for fault in self.faults],
        }


def _told(fault: Fault) -> dict[str, Any]:
    return {"start": fault.since, "end": fault.until, "label": fault.label, "nodes": list(fault.nodes)}


def play(settings: Settings) -> Outcome:
    """Run the command on every node, and judge what it did.

    Nothing of it is left afterwards, nor if this is interrupted. A program that misbehaves is no exception but the
    outcome's `trouble`; its kind is "no_command" where the command itself cannot be run.
    """
    loop = Loop()
    network = Network(settings.weather, settings.seed)
    topology = TOPOLOGIES[settings.topology](settings.ids) if settings.workload.topology else None
    cluster = Cluster(loop, network, settings.command, settings.ids, settings.seed, settings.environment, topology)
    try:
        try:
            return _play(settings, loop, network, cluster)
        finally:
            cluster.close()
    finally:
        loop.close()


def _play(settings: Settings, loop: Loop, network: Network, cluster: Cluster) -> Outcome:
    cluster.start()
    if not loop.until(lambda: cluster.ready or cluster.trouble, settings.init_seconds):
        cluster.not_ready(settings.init_seconds)
    clients = Clients(cluster, settings.workload, settings.request_seconds, settings.seed)
    faults: tuple[Fault, ...] = ()
    convergence = None
    if cluster.trouble is None:
        faults = _ask(settings, clients)
    healed = loop.now()
    traffic = copy.deepcopy(network.traffic)  # what agreeing takes afterwards is no request's business
    network.heal()
    if cluster.trouble is None and settings.workload.final is not None:
        convergence = _settle(settings, clients, healed)
    seconds = loop.now() - clients.began
    if cluster.trouble is not None:
        judgement = Judgement(False, cluster.trouble.message)
    else:
        judgement = settings.workload.judge(clients.events, cluster.ids)
    return Outcome(
        settings,
        judgement,
        cluster.trouble,
        clients.events,
        tuple(fault for fault in faults if fault.since <= seconds),
        traffic,
        convergence,
        seconds,
        clients.late,
        {node.id: node.log.text() for node in cluster.nodes.values()},
    )


def _ask(settings: Settings, clients: Clients) -> tuple[Fault, ...]:
    """Make requests among faults for as long as the run is to last; all faults are over afterwards."""
    cluster = clients.cluster
    loop, began = cluster.loop, clients.began
    ends = began + settings.seconds
    faults = nemesis.plan(settings.kinds, cluster.ids, settings.seconds, settings.interval, settings.seed)
    for fault in faults:
        loop.at(began + fault.since, lambda fault=fault: cluster.begin(fault))  # type: ignore[misc]
        loop.at(began + fault.until, lambda fault=fault: cluster.end(fault))  # type: ignore[misc]
    clients.ask_at_rate(settings.rate, ends)
    loop.until(lambda: cluster.trouble, ends)
    loop.until(lambda: cluster.trouble or not clients.busy, math.inf)  # each request ends, or is given up
    if not loop.until(lambda: cluster.trouble or cluster.ready, loop.now() + settings.init_seconds):
        cluster.not_ready(settings.init_seconds)
    return faults


def _settle(settings: Settings, clients: Clients, healed: float) -> float | None:
    """Read from all nodes until the judge is content; how long after `healed` that was, None if never."""
    cluster, final = clients.cluster, settings.workload.final
    assert final is not None
    loop = cluster.loop
    gap = max(0.1, 3 * settings.weather.latency)
    right, since = 0, 0.0
    while cluster.trouble is None:
        before = len(clients.events)
        for client in clients.all:
            clients.ask(client, final, final=True)
        loop.until(lambda: cluster.trouble or not clients.busy, math.inf)
        now = loop.now()
        changes = [event for event in clients.events[:before] if event["f"] != final.f]
        if settings.workload.judge(changes + clients.events[before:], cluster.ids).valid is not False:
            right, since = right + 1, since if right else now - healed
        else:
            right = 0
        if right == TWICE:
            return since
        if not right and now - healed > settings.settle_seconds:
            return None
        loop.until(lambda: cluster.trouble, now + gap)
    return None
