"""The sentences about runs of Raft nodes: what is stale, what is gone, who led."""

from __future__ import annotations

from typing import Any

import pytest

from grader.exercises.raft.judging import wrong_history
from grader.exercises.raft.scene import whom
from grader.nodes.actors import Local
from grader.nodes.bench import NodeBench
from grader.nodes.clients import Ask, Asked
from grader.nodes.node import Node
from grader.nodes.sim import Simulation, cluster
from grader.submission import Submission


class Silent(Node):
    """Does nothing."""


def simulation() -> Simulation:
    return Simulation(Local({"Silent": Silent}, ("role", "current_term")), cluster(3, "Silent"))


def write(value: str, begin: float, end: float | None) -> Asked:
    answer = {"type": "write_ok"} if end is not None else None
    return Asked("c1", Ask("n1", {"type": "write", "key": "x", "value": value}), begin, answer, end)


def read(value: Any, begin: float, end: float) -> Asked:
    return Asked("c2", Ask("n2", {"type": "read", "key": "x"}), begin, {"type": "read_ok", "value": value}, end)


FIRST, SECOND = write("first", 1, 2), write("second", 3, 4)


@pytest.mark.parametrize(
    ("done", "kind"),
    [
        ([FIRST, read("first", 2.5, 2.6)], None),
        ([FIRST, SECOND, read("first", 3.5, 5)], None),
        ([FIRST, SECOND, read("first", 4, 5), read("second", 5, 6)], "not_linearizable"),
        ([FIRST, SECOND, read("first", 4, 5)], "not_durable"),
        ([FIRST, read(None, 4, 5)], "not_durable"),
        ([FIRST, write("unknown", 3, None), read("unknown", 9, 10)], None),
        ([FIRST, write("unknown", 3, None), read("first", 9, 10)], None),
    ],
    ids=["fresh", "concurrent", "stale", "gone", "nothing", "done late", "never done"],
)
def test_stale_and_lost_values_are_told_apart(done: list[Asked], kind: str | None) -> None:
    nodes = NodeBench(None, Submission("", "f.py"), (), (), 0, 1)  # type: ignore[arg-type]
    sim = simulation()
    for asked in sorted(done, key=lambda one: one.sent):
        event = {"process": asked.client + str(asked.sent), "f": asked.ask.body["type"], "key": "x"}
        value = asked.ask.body.get("value")
        sim.story.history.append({**event, "type": "invoke", "value": value, "time": asked.sent})
        if asked.answer is not None:
            value = asked.answer.get("value", value)
            sim.story.history.append({**event, "type": "ok", "value": value, "time": asked.answered})
    found = wrong_history(nodes, sim, done)
    assert (found and found.kind) == kind


def test_the_leader_is_who_leads_the_highest_term() -> None:
    sim = simulation()
    sim.places["n1"].state = {"role": "leader", "current_term": 2}
    sim.places["n3"].state = {"role": "leader", "current_term": 5}
    assert (whom(sim, "leader"), whom(sim, "old"), whom(sim, "n2")) == ("n3", "n1", "n2")
    sim.crash("n3")
    assert whom(sim, "leader") == "n1"
