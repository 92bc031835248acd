"""How fast every interleaving is searched, and how soon that finds each mutant.

    python benchmarks/explorer.py [--states 60000] [--mutants 100]

States per second of two_phase_commit's reference with three participants, a crash and a timer, its nodes in a box as
they are graded, beside a plain search of the same cluster that copies node objects for every step (copy.deepcopy). Then
each mutant whose heading names an exploring check: seconds until that check's verdict, which holds the search, making
the schedule smaller and drawing it.
"""

from __future__ import annotations

import argparse
import copy
import json
import statistics
import time
from collections import deque
from typing import Any

from _common import goal, save

from grader import grading, registry
from grader.authoring import wrong
from grader.nodes.boxed import Code
from grader.nodes.boxes import world
from grader.nodes.clients import Ask
from grader.nodes.explorer import Explorer
from grader.nodes.fingerprint import fingerprint
from grader.nodes.life import Birth, Life
from grader.nodes.sim import Member
from grader.nodes.space import Space
from grader.nodes.states import Model
from grader.ranks.engines import Engines

EXPLORING = {"two_phase_commit": ("atomic",), "quorum_store": ("explored",), "raft": ("votes",)}
PARTS = ("n1", "n2", "n3")
MEMBERS = (Member("n0", "Coordinator", PARTS), *(Member(name, "Participant") for name in PARTS))
BEGIN = {"type": "begin", "txn": "t", "writes": {name: {"x": 1} for name in PARTS}}


def searched(engines: Engines, source: str, states: int) -> dict[str, Any]:
    """The search as checks do it, with nodes in a box."""
    model = Model(MEMBERS, {"c1": (Ask("n0", BEGIN),)}, timers=1, crashes=1)
    with world(engines.warm, Code(source, "reference.py", ("Coordinator", "Participant"))) as actors:
        explorer = Explorer(actors, model, lambda view: None)
        started = time.perf_counter()
        found = explorer.search(most=states)
        seconds = time.perf_counter() - started
    return {"how": "explorer, boxed", "states": found.states, "seconds": seconds, "handlers": explorer.locals.runs}


def copied(source: str, states: int) -> dict[str, Any]:
    """The same cluster without crashes or timers, breadth first over copies of node objects: what is simplest."""
    space = Space(source, "reference.py")

    def born(member: Member) -> tuple[Life, Any]:
        peers = member.peers or tuple(other.name for other in MEMBERS if other is not member)
        life = Life(space.node_class(member.kind, member.name), Birth(member.kind, member.name, peers))
        return life, life.step(["start"], 0.0)

    nodes = {member.name: born(member)[0] for member in MEMBERS}
    first = (nodes, [("n0", "c1", json.dumps({**BEGIN, "msg_id": 1}))])
    seen, todo, handlers = set(), deque([first]), 0
    started = time.perf_counter()
    while todo and len(seen) < states:
        nodes, messages = todo.popleft()
        for place, (dst, src, text) in enumerate(messages):
            life = copy.deepcopy(nodes[dst])
            step = life.step(["message", src, text], 0.0)
            handlers += 1
            sent = [
                (effect[1], dst, effect[2]) for effect in step.effects if effect[0] == "send" and effect[1] in nodes
            ]
            after = {**nodes, dst: life}, sorted([*messages[:place], *messages[place + 1 :], *sent])
            key = json.dumps([[fingerprint(one) for one in after[0].values()], after[1]])
            if key not in seen:
                seen.add(key)
                todo.append(after)
    return {
        "how": "copies of objects",
        "states": len(seen),
        "seconds": time.perf_counter() - started,
        "handlers": handlers,
    }


def mutants(engines: Engines, most: int) -> list[dict[str, Any]]:
    """Seconds until the exploring check's verdict on each mutant that it must catch."""
    rows = []
    for name, checks in EXPLORING.items():
        found = registry.find(name)
        for each in wrong.wrongs(name):
            if each.check not in checks or len(rows) >= most:
                continue
            one = grading.only(found, each.check)
            started = time.perf_counter()
            verdict = grading.grade(one, each.submission, engines, 1)
            seconds = time.perf_counter() - started
            steps = len((verdict.checks[0].schedule or {}).get("actions", []))
            rows.append({"mutant": each.id, "seconds": seconds, "steps": steps, "caught": not verdict.passed})
            missed = "" if rows[-1]["caught"] else "  NOT caught"
            print(
                f"{rows[-1]['mutant']:60} {seconds:6.2f} s  {steps:3} steps{missed}",
                flush=True,
            )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--states", type=int, default=60_000)
    parser.add_argument("--mutants", type=int, default=100, help="at most so many of them")
    arguments = parser.parse_args()
    source = wrong.reference("two_phase_commit").source
    with Engines() as engines:
        engines.warm.wait_until_ready()
        rows = [searched(engines, source, arguments.states), copied(source, 2000)]
        for row in rows:
            rate = row["states"] / row["seconds"]
            told = f"{row['how']:20} {row['states']:7} states {row['seconds']:7.2f} s {rate:10,.0f} a second"
            print(f"{told}, {row['handlers']} handlers run")
        first = goal("states a second", rows[0]["states"] / rows[0]["seconds"], 20_000, "", more=True)
        found = mutants(engines, arguments.mutants)
        slowest = max((row["seconds"] for row in found), default=0.0)
        second = goal("slowest mutant of an exploring check", slowest, 10, " s")
        print(f"median {statistics.median([row['seconds'] for row in found] or [0.0]):.2f} s of {len(found)}")
    save("explorer", {"rows": rows, "mutants": found, "goals": [first, second]})


if __name__ == "__main__":
    main()
