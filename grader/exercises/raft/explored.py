"""Elections of three nodes in every interleaving: two timers go off, and a node crashes after anything it does."""

from __future__ import annotations

from typing import Any

from grader.exercises.raft.judging import led_twice
from grader.lost import Lost
from grader.nodes.bench import NodeBench
from grader.nodes.explorer import Model, View
from grader.nodes.locals import Locals
from grader.nodes.sim import cluster
from grader.trace.story import Story
from grader.verdict import Diagnosis

STATES = 6_000  # of the search: what is known to break elections so shows within it
WALKS = 20, 60  # at random, for what takes a third term: so many of so many steps


def elections(bench: NodeBench, kind: str) -> Story:
    """One leader a term, whatever happens in which order. Raises Lost."""
    few = Model(cluster(3, kind), {}, timers=2, crashes=1, label="Every interleaving of 3 nodes, 2 timers and a crash")
    more = Model(cluster(3, kind), {}, 4, 1, 1, label="3 nodes, 4 timers, a crash and a copy, in random order")
    told = _explored(bench, few, STATES, (0, 0))
    _explored(bench, more, 1, WALKS)
    return told


def _explored(bench: NodeBench, model: Model, most: int, dives: tuple[int, int]) -> Story:
    leaders: dict[str, tuple[int, str, str]] = {}  # term and names, by what was said of them

    def judge(view: View) -> Diagnosis | None:
        led: dict[int, str] = {}
        for name, (role, term) in view.seen.items():
            if role != "leader":
                continue
            if term in led:
                had = f"Term {term} has two leaders: {led[term]} and {name}."
                leaders[had] = term, led[term], name
                return bench.found("wrong_result", had)
            led[term] = name
        return None

    try:
        return bench.explore(model, judge, _seen, most, dives).story
    except Lost as violation:
        had = violation.diagnosis.message
        if had in leaders and violation.picture is not None:
            violation.diagnosis = led_twice(bench, violation.picture, had, *leaders[had])
        raise


def _seen(locals_: Locals, number: int) -> Any:
    """A node's role and term."""
    state = locals_.known[number].state
    term = state.get("current_term")
    return state.get("role"), term if isinstance(term, int) else None
