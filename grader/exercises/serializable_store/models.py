"""Two nodes whose every interleaving is explored, and what must hold of what clients were told."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

from grader.exercises.serializable_store import answered, serial
from grader.exercises.serializable_store.answered import Problem, Txn
from grader.exercises.serializable_store.history import befell
from grader.exercises.serializable_store.plans import Drawn, ask, read
from grader.lost import Lost
from grader.nodes.bench import NodeBench
from grader.nodes.clients import Ask
from grader.nodes.sim import Member
from grader.nodes.states import Model, View
from grader.trace.story import Story
from grader.verdict import Diagnosis

NODES = ("n1", "n2")


def _model(
    asks: Mapping[str, tuple[Ask, ...]], label: str, timers: int = 0, crashes: int = 0, copies: int = 0
) -> Model:
    bounds = ((crashes, "crash", "crashes"), (timers, "timer", "timers"), (copies, "message twice", "messages twice"))
    told = ", ".join(f"{number} {many if number > 1 else single}" for number, single, many in bounds if number)
    label = f"Every interleaving of {label}{': ' if told else ''}{told}"
    return Model(tuple(Member(name, "TxnStore") for name in NODES), asks, timers, crashes, copies, label=label)


def crossing(bench: NodeBench, what: str, timers: int = 0, copies: int = 0) -> Model:
    """Two transactions on a key of each node, by the two nodes."""
    drawn = Drawn(random.Random("model"), NODES)
    x, y = drawn.named("x", "n1"), drawn.named("y", "n2")
    if what == "reads":
        asks = {"c1": (ask("n1", drawn.append(x), drawn.append(y)),), "c2": (ask("n2", read(x), read(y)),)}
        return _model(asks, "a writer and a reader of two keys", timers, 0, copies)
    if what == "skew":
        asks = {"c1": (ask("n1", read(x), drawn.append(y)),), "c2": (ask("n2", read(y), drawn.append(x)),)}
        return _model(asks, "two transactions that each read what the other one appends to", timers, 0, copies)
    after: dict[str, tuple[Ask, ...]] = {"c1": (ask("n1", drawn.append(x)), ask("n2", read(x)))}
    return _model(
        {**after, "c2": (ask("n2", read(x)),)},
        "an append and a read after it, and a read next to them",
        timers,
        0,
        copies,
    )


def one(bench: NodeBench, timers: int = 0, crashes: int = 0, copies: int = 0) -> Model:
    """One transaction that appends at both nodes, and a read of both keys."""
    drawn = Drawn(random.Random("model"), NODES)
    x, y = drawn.named("x", "n1"), drawn.named("y", "n2")
    asks = {"c1": (ask("n1", drawn.append(x), drawn.append(y)),), "c2": (ask("n2", read(x), read(y)),)}
    return _model(asks, "a transaction on two nodes, and a read of both keys", timers, crashes, copies)


def explore(bench: NodeBench, model: Model, most: int, dives: tuple[int, int] = (0, 0)) -> Story:
    """Search a model. Raises Lost, with the schedule in words."""

    def judge(view: View) -> Diagnosis | None:
        found = problem(view, model.asks)
        return None if found is None else bench.found(found.kind, found.text, None, found.expected, found.got)

    try:
        return bench.explore(model, judge, None, most, dives, settled=judge).story
    except Lost as violation:
        if violation.picture is not None and violation.schedule is not None:
            _explain(violation, violation.picture, violation.schedule["actions"])
        raise


def _explain(violation: Lost, story: Story, actions: Sequence[dict[str, object]]) -> None:
    account = befell(story, actions)
    found = violation.diagnosis
    answers = [sent for sent in story.sent if sent.dst in ("c1", "c2")]
    line = account.line or (answers[-1].line if answers else None)
    violation.diagnosis = replace(found, message=account.added_to(found.message), line=line or found.line)
    story.blamed |= account.blamed
    story.marked |= {sent.number for sent in answers}


def problem(view: View, asks: Mapping[str, Sequence[Ask]]) -> Problem | None:
    """What is wrong with what clients were told up to now."""
    called: dict[tuple[str, int], int] = {}
    ended: dict[tuple[str, int], tuple[int, dict[str, object]]] = {}
    for place, (client, number, answer) in enumerate(view.history):
        if answer is None:
            called[client, number] = place
        elif number >= 0:
            ended.setdefault((client, number), (place, answer))
    txns = []
    for index, ((client, number), place) in enumerate(called.items()):
        wanted = asks[client][number]
        returned, answer = ended.get((client, number), (math.inf, None))
        if answer is not None and (wrong := answered.shape(wanted.body, answer)):
            return Problem("wrong_result", f"The answer of {wanted.node} to {client} {wrong}.")
        status, ops = answered.ended(wanted.body, answer)
        returned = returned if status != "info" else math.inf
        txns.append(Txn(index, client, wanted.node, ops, status, place, returned, answer, timed=False))
    return serial.values(txns) or serial.orders(txns) or serial.last(txns, False) or serial.cycle(txns)
