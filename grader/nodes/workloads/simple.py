"""echo and unique-ids: each request is judged by its own answer, or by all answers alike."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator, Sequence
from typing import Any

from grader.nodes.protocol import Body
from grader.nodes.workloads.workload import SHOWN, Event, Judgement, Op, Workload, calls, need
from grader.says import at, listed


def _echoes(draw: random.Random) -> Iterator[Op]:
    for number in itertools.count():
        yield Op("echo", f"Please echo {number}-{draw.randrange(1000)}")


def _echoed(op: Op, body: Body) -> Any:
    return need(body, "echo", object, "what was sent")


def judge_echo(events: Sequence[Event], nodes: Sequence[str]) -> Judgement:
    """Each answer holds what its request did."""
    every = calls(events)
    wrong = [call for call in every if call.ok and call.value != call.asked]
    found = {"wrong": len(wrong)}
    if wrong:
        first = wrong[0]
        said = f"{first.node} answered echo {first.asked!r} with {first.value!r:.80} at {at(first.end or 0)}"
        return Judgement(False, f"{said}, and must answer with what was sent", found)
    right = sum(call.ok for call in every)
    if not right:
        return Judgement("unknown", "not one request was answered", found)
    return Judgement(True, f"all {right} answers echo their requests", found)


def _generates(draw: random.Random) -> Iterator[Op]:
    while True:
        yield Op("generate")


def _generated(op: Op, body: Body) -> Any:
    return need(body, "id", object, "the new id")


def judge_unique(events: Sequence[Event], nodes: Sequence[str]) -> Judgement:
    """No id was given twice."""
    given: dict[str, list[Any]] = {}
    for call in calls(events):
        if call.ok:
            given.setdefault(json.dumps(call.value, sort_keys=True), []).append(call)
    twice = [name for name, who in given.items() if len(who) > 1]
    found = {
        "ids": len(given),
        "duplicated": len(twice),
        "duplicated_values": [json.loads(name) for name in twice[:SHOWN]],
    }
    if twice:
        who = given[twice[0]]
        where = listed(f"by {call.node} at {at(call.end or 0)}" for call in who[:2])
        more = f"; {len(twice)} ids were given more than once" if len(twice) > 1 else ""
        return Judgement(False, f"the id {twice[0]:.80} was given {len(who)} times: first {where}{more}", found)
    if not given:
        return Judgement("unknown", "not one id was given", found)
    return Judgement(True, f"all {len(given)} ids are different", found)


ECHO = Workload(
    name="echo",
    about="a node answers with what it was sent",
    operations=_echoes,
    request=lambda op: {"type": "echo", "echo": op.value},
    answer=_echoed,
    judge=judge_echo,
)
UNIQUE_IDS = Workload(
    name="unique-ids",
    about="ids that no node gives twice",
    operations=_generates,
    request=lambda op: {"type": "generate"},
    answer=_generated,
    judge=judge_unique,
)
