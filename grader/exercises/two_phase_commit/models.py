"""Small clusters whose every interleaving is explored, and what must hold in each of their states."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from grader.exercises.common.nodes import names
from grader.exercises.two_phase_commit import history
from grader.exercises.two_phase_commit.history import COORDINATOR, OUTCOMES
from grader.lost import Lost
from grader.nodes.bench import NodeBench
from grader.nodes.clients import Ask
from grader.nodes.locals import Locals
from grader.nodes.sim import Member
from grader.nodes.states import Model, View
from grader.trace.story import Story
from grader.verdict import Diagnosis

TXN, KEY, VALUE = "t1", "x", 1
SILENT = "no answer"


def one(count: int, timers: int = 0, crashes: int = 0, copies: int = 0) -> Model:
    """One transaction that writes 1 at every participant."""
    writes = {name: {KEY: VALUE} for name in names(count)}
    body = {"type": "begin", "txn": TXN, "writes": writes}
    nodes = (Member(COORDINATOR, "Coordinator", tuple(writes)), *(Member(name, "Participant") for name in writes))
    bounds = ((crashes, "crash", "crashes"), (timers, "timer", "timers"), (copies, "message twice", "messages twice"))
    told = ", ".join(f"{number} {many if number > 1 else single}" for number, single, many in bounds if number)
    label = f"Every interleaving with {count} participants{': ' if told else ''}{told}"
    return Model(nodes, {"c1": (Ask(COORDINATOR, body),)}, timers, crashes, copies, label=label)


def explore(bench: NodeBench, model: Model, most: int) -> Story:
    """Search a model. Raises Lost, with the schedule in words."""
    props = Properties(bench)
    try:
        return bench.explore(model, props.never, _seen, most, settled=props.in_the_end).story
    except Lost as violation:
        if violation.picture is not None and violation.schedule is not None:
            _explain(violation, violation.picture, violation.schedule["actions"])
        raise


def _explain(violation: Lost, story: Story, actions: list[dict[str, Any]]) -> None:
    account = history.account(story, actions)
    found = violation.diagnosis
    violation.diagnosis = replace(found, message=account.added_to(found.message), line=account.line or found.line)
    story.blamed |= account.blamed
    story.marked |= {sent.number for sent in story.sent if sent.dst == "c1" and sent.type in OUTCOMES}


def _seen(locals_: Locals, number: int) -> Any:
    """What a participant reads."""
    if locals_.known[number].member == 0:
        return None
    answer = locals_.answer(number, {"type": "read", "key": KEY})
    return SILENT if answer is None else answer.get("value")


class Properties:
    """What must hold in every state, and where nothing befalls nodes any more."""

    def __init__(self, bench: NodeBench) -> None:
        self.bench = bench

    def never(self, view: View) -> Diagnosis | None:
        """Wrong at any time: two different answers, or a value of what was aborted."""
        told, found = _told(view), self.bench.found
        if len(told) > 1:
            text = f"the client was told that {TXN} is {told[0]}, and then that it is {told[1]}. Keep to one outcome."
            return found("not_atomic", text, None, told[0], told[1])
        for node, value in _values(view).items():
            if told == ["aborted"] and value not in (None, SILENT):
                text = f"the client was told that {TXN} is aborted, but {node} returned {value} for {KEY!r}, which "
                text += f"{TXN} writes. Apply a transaction only once it is committed."
                return found("not_atomic", text, None, "null", str(value))
        return None

    def in_the_end(self, view: View) -> Diagnosis | None:
        """Wrong once all messages have arrived and 5 s have passed: a transaction that is at some participants only."""
        told, values = _told(view), _values(view)
        if SILENT in values.values():
            return None
        wrong = self.never(view)
        has = [node for node, value in values.items() if value is not None]
        if wrong is not None or not (has or told == ["committed"]) or len(has) == len(values):
            return wrong
        listed = ", ".join(f"{node} reads {json.dumps(value)}" for node, value in values.items())
        what = f"{TXN} is applied at some participants and not at others"
        if told == ["committed"]:
            what = f"the client was told that {TXN} is committed, but {'not every' if has else 'no'} participant has it"
        text = f"{what}. In the end all nodes were up and every message had arrived, and {listed}."
        return self.bench.found("not_atomic", text, None, "all or none", listed)


def _values(view: View) -> dict[str, Any]:
    return {node: value for node, value in view.seen.items() if node != COORDINATOR}


def _told(view: View) -> list[str]:
    """What the client was told, each answer once."""
    types = [str(answer.get("type")) for _, _, answer in view.history if answer is not None]
    return [kind for kind in dict.fromkeys(types) if kind in OUTCOMES]
