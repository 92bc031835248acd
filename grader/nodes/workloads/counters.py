"""g-counter and pn-counter: in the end every node reads the sum of what was added."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from grader.nodes.protocol import Body
from grader.nodes.workloads.workload import Call, Event, Judgement, Op, Workload, calls, need, no_more, silent
from grader.says import at


def _operations(least: int, most: int) -> Callable[[random.Random], Iterator[Op]]:
    def draw(random_: random.Random) -> Iterator[Op]:
        while True:
            yield Op("add", random_.randint(least, most)) if random_.random() < 0.5 else Op("read")

    return draw


def _request(op: Op) -> Body:
    return {"type": "read"} if op.f == "read" else {"type": "add", "delta": op.value}


def _answer(op: Op, body: Body) -> Any:
    return need(body, "value", int, "the counter, an integer") if op.f == "read" else no_more(op, body)


def sums(certain: int, perhaps: Sequence[int]) -> set[int]:
    """Every total that is possible where `perhaps` may each have been added or not."""
    lowest = sum(delta for delta in perhaps if delta < 0)
    bits = 1  # bit k: the total certain + lowest + k is possible
    for delta in perhaps:
        bits |= bits << abs(delta)
    return {certain + lowest + place for place in range(bits.bit_length()) if bits >> place & 1}


def judge(events: Sequence[Event], nodes: Sequence[str]) -> Judgement:
    """Final reads agree, on a sum of all acknowledged deltas and any of those whose end nobody knows."""
    every = calls(events)
    adds = [call for call in every if call.f == "add"]
    certain = sum(call.asked for call in adds if call.ok)
    perhaps = [call.asked for call in adds if call.type == "info"]
    possible = sums(certain, perhaps)
    reads = [call for call in every if call.f == "read" and call.ok]
    last = {call.node: call.value for call in reads if call.final}
    found: dict[str, Any] = {
        "acknowledged": sum(call.ok for call in adds),
        "acknowledged_sum": certain,
        "possible": [min(possible), max(possible)],
        "final_reads": {node: last[node] for node in nodes if node in last},
    }
    reason = _impossible(reads, adds) or silent(nodes, last) or _wrong(nodes, last, certain, perhaps, possible)
    if reason:
        return Judgement(False, reason, found)
    if not found["acknowledged"]:
        return Judgement("unknown", "no add was acknowledged, so nothing could be lost", found)
    return Judgement(True, f"all nodes read {last[nodes[0]]}", found)


def _impossible(reads: Sequence[Call], adds: Sequence[Call]) -> str:
    """A value beyond all that had been asked for when the read ended cannot be right, however late messages come."""
    for read in reads:
        asked = [call.asked for call in adds if call.type != "fail" and call.start <= (read.end or 0.0)]
        low, high = sum(delta for delta in asked if delta < 0), sum(delta for delta in asked if delta > 0)
        if not low <= read.value <= high:
            return (
                f"{read.node} read {read.value} at {at(read.end or 0)}, but all adds until then give a sum between "
                f"{low} and {high}. Count no delta twice"
            )
    return ""


def _wrong(nodes: Sequence[str], last: dict[str, int], certain: int, perhaps: Sequence[int], possible: set[int]) -> str:
    for node in nodes:
        value = last[node]
        if value in possible:
            continue
        unsure = f", or with some of {len(perhaps)} unanswered adds between {min(possible)} and {max(possible)}"
        return (
            f"at the end {node} read {value}, but the acknowledged deltas sum to {certain}{unsure if perhaps else ''}"
            f" ({abs(value - certain)} too {'little' if value < certain else 'much'})"
        )
    if len(set(last.values())) > 1:
        return "at the end the nodes disagreed: " + ", ".join(f"{node} read {last[node]}" for node in nodes)
    return ""


G_COUNTER = Workload(
    name="g-counter",
    about="a counter that only grows, on all nodes",
    operations=_operations(0, 4),
    request=_request,
    answer=_answer,
    judge=judge,
    final=Op("read"),
)
PN_COUNTER = Workload(
    name="pn-counter",
    about="a counter that grows and shrinks, on all nodes",
    operations=_operations(-5, 4),
    request=_request,
    answer=_answer,
    judge=judge,
    final=Op("read"),
)
