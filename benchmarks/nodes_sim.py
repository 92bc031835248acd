"""Gossip among many nodes, simulated: events a second and memory, here and with the nodes in a box, as they are graded.

    python benchmarks/nodes_sim.py [--nodes 1000 10000] [--seconds 2]

Every node tells one of its 20 peers what it knows each 0.2 s of virtual time. An event is a message that arrives or a
timer that goes off. Beside it runs what people would write with asyncio on one machine: a task and a queue for each
node. Each row is measured in a process of its own, so that its memory is its own (that of the box is not in it).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import resource
import subprocess
import sys
import time
from typing import Any

from _common import save

PEERS = 20
SOURCE = """
from grader.nodes import Node



class Gossip(Node):
    def on_start(self):
        self.known = {self.id}
        self.set_timer("gossip", 0.2 * self.random.random())

    def on_timer(self, name):
        self.send(self.random.choice(self.peers), {"type": "gossip", "known": sorted(self.known)[:4]})
        self.set_timer("gossip", 0.2)

    def on_message(self, src, body):
        self.known.update(body["known"])
"""


def simulated(nodes: int, seconds: float, boxed: bool) -> tuple[int, float]:
    """How many events there were, and how long they took."""
    from grader.nodes.actors import Actors, Local
    from grader.nodes.boxed import Code
    from grader.nodes.boxes import world
    from grader.nodes.sim import Member, Simulation
    from grader.ranks import WORKER
    from grader.sandbox.warm import Warm

    space: dict[str, Any] = {}
    exec(SOURCE, space)
    rng = random.Random(1)
    members = [Member(f"n{n}", "Gossip", tuple(f"n{rng.randrange(nodes)}" for _ in range(PEERS))) for n in range(nodes)]

    def run(actors: Actors) -> tuple[int, float]:
        sim = Simulation(actors, members, 1)
        sim.run(0.0)  # every node has started
        started, before = time.perf_counter(), sim.events
        sim.run(seconds)
        return sim.events - before, time.perf_counter() - started

    if not boxed:
        return run(Local({"Gossip": space["Gossip"]}))
    with Warm(WORKER) as warm:
        warm.wait_until_ready()
        with world(warm, Code(SOURCE, "gossip.py", ("Gossip",))) as actors:
            return run(actors)


def with_asyncio(nodes: int, seconds: float) -> tuple[int, float]:
    """The same gossip among asyncio tasks, as fast as they go: there is no time to wait for."""
    events = 0

    async def node(own: int, queues: list[asyncio.Queue[str]], turns: int, rng: random.Random) -> None:
        nonlocal events
        known = {f"n{own}"}
        peers = [rng.randrange(nodes) for _ in range(PEERS)]
        for _ in range(turns):
            queues[rng.choice(peers)].put_nowait(json.dumps({"type": "gossip", "known": sorted(known)[:4]}))
            events += 1
            while not queues[own].empty():
                known.update(json.loads(queues[own].get_nowait())["known"])
                events += 1
            await asyncio.sleep(0)

    async def all_of_them() -> None:
        queues: list[asyncio.Queue[str]] = [asyncio.Queue() for _ in range(nodes)]
        turns = round(seconds / 0.2)
        await asyncio.gather(*(node(n, queues, turns, random.Random(n)) for n in range(nodes)))

    started = time.perf_counter()
    asyncio.run(all_of_them())
    return events, time.perf_counter() - started


def measure(how: str, nodes: int, seconds: float) -> None:
    """One row, as JSON, on stdout: run in a process of its own."""
    if how == "asyncio":
        events, took = with_asyncio(nodes, seconds)
    else:
        events, took = simulated(nodes, seconds, how == "boxed")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"how": how, "nodes": nodes, "events": events, "seconds": took, "mib": peak}))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--nodes", type=int, nargs="+", default=[1000, 10_000])
    parser.add_argument("--seconds", type=float, default=2.0, help="of virtual time")
    parser.add_argument("--one", nargs=2, metavar=("HOW", "NODES"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        measure(arguments.one[0], int(arguments.one[1]), arguments.seconds)
        return
    rows = []
    print(f"{'nodes':>7} {'':10} {'events':>9} {'s':>7} {'events/s':>10} {'MiB':>7}")
    for nodes in arguments.nodes:
        for how in ("simulated", "boxed", "asyncio"):
            command = [sys.executable, __file__, "--one", how, str(nodes), "--seconds", str(arguments.seconds)]
            row = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            rows.append(row)
            rate = row["events"] / row["seconds"]
            print(
                f"{nodes:7} {how:10} {row['events']:9} {row['seconds']:7.2f} {rate:10,.0f} {row['mib']:7.0f}",
                flush=True,
            )
    save("nodes_sim", {"rows": rows})


if __name__ == "__main__":
    main()
