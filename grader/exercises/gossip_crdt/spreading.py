"""GossipStore from outside: what was added where, what every node must read in the end, and what it cost in messages.

Demers et al. 1987, "Epidemic algorithms for replicated database maintenance"; the workloads are Maelstrom's g-set and
pn-counter.
"""

from __future__ import annotations

import itertools
import json
import math
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from grader.exercises.common.bounds import bounded
from grader.nodes.bench import NodeBench
from grader.nodes.clients import Ask
from grader.nodes.network import Network
from grader.nodes.plan import Mishap, Plan, Played
from grader.nodes.sim import Member, cluster, messages_between
from grader.trace.story import Sent
from grader.verdict import Diagnosis

READER = "reader"
PROMPT = 2.0  # seconds in which a request is answered; every run ends so long after all nodes were asked
MANY = 64
MOST_SUMS = 14  # operations of which all sums are tried
LANES = 6  # nodes that are drawn of a large cluster
MOST_OF_FEW, MOST_OF_MANY = 15_000, 80_000  # messages of a run, after which it is ended
DRIFT = 1.01  # a node's clock is at most so much fast


@dataclass(frozen=True)
class Operation:
    """An add: where and when it was sent, and when it was confirmed (None if it never was)."""

    node: str
    what: Any  # the element or delta
    sent: float
    confirmed: float | None


def members(size: int, workload: str, rng: random.Random) -> tuple[Member, ...]:
    """Nodes with clocks of their own."""
    return tuple(
        replace(one, offset=rng.uniform(0, 100), rate=rng.uniform(0.99, 1.01))
        for one in cluster(size, "GossipStore", {"workload": workload})
    )


def workload_of(plan: Plan) -> str:
    return str(plan.members[0].settings["workload"])


def add(workload: str, node: str, what: Any, after: float) -> Ask:
    return Ask(node, {"type": "add", "element" if workload == "g-set" else "delta": what}, after)


def adds(
    rng: random.Random, workload: str, nodes: Sequence[str], each: Sequence[Any], until: float
) -> dict[str, tuple[Ask, ...]]:
    """One client for each thing that is added, at random nodes and times."""
    found: dict[str, tuple[Ask, ...]] = {}
    for number, what in enumerate(each, 1):
        node = rng.choice(list(nodes))
        found[f"c{number}"] = (add(workload, node, what, rng.uniform(0, until)),)
    return found


def prepare(played: Played) -> None:
    """A network that neither drops nor doubles from `healed` on; and a reader of every node, before the end."""
    sim, plan = played.sim, played.plan
    bounded(played, MOST_OF_MANY if len(sim.names) == MANY else MOST_OF_FEW)

    def mend() -> None:
        sim.network = Network(plan.network.least, min(plan.network.most, 0.05))

    def ask() -> None:
        for number, node in enumerate(sim.names, 1):
            sim.request(READER, node, {"type": "read", "msg_id": number})

    sim.client(READER, lambda message: None)
    if plan.healed is not None:
        sim.at(plan.healed, mend)
    sim.at(read_at(plan), ask)


def read_at(plan: Plan) -> float:
    return plan.until - PROMPT


def operations(played: Played) -> list[Operation]:
    """All adds that were sent, by time."""
    found = []
    for client in played.clients.values():
        for asked in client.done:
            body = asked.ask.body
            if body["type"] == "add":
                confirmed = asked.answered if asked.answer and asked.answer.get("type") == "add_ok" else None
                what = body["element"] if "element" in body else body["delta"]
                found.append(Operation(asked.ask.node, what, asked.sent, confirmed))
    return sorted(found, key=lambda one: one.sent)


def final_reads(played: Played) -> dict[str, Sent | None]:
    """What each node told the reader."""
    names = played.sim.names
    answers = {sent.body.get("in_reply_to"): sent for sent in reversed(played.sim.answers) if sent.dst == READER}
    return {node: answers.get(number) for number, node in enumerate(names, 1)}


# ---- what is wrong with answers


def unanswered(bench: NodeBench, played: Played) -> Diagnosis | None:
    """The first request that was not answered as it must be, promptly, whatever the partition."""
    for client in played.clients.values():
        for asked in client.done:
            body, node = asked.ask.body, asked.ask.node
            wanted = f"{body['type']}_ok"
            kind = asked.answer.get("type") if asked.answer is not None else None
            if kind == wanted and asked.seconds is not None and asked.seconds <= PROMPT:
                continue
            cut = any(m.what == "partition" and m.at <= asked.sent < m.until for m in played.plan.mishaps)
            why = " A partition is no reason to wait: the add is kept here and spreads when it can." if cut else ""
            did = f"answered {json.dumps(asked.answer)[:100]}" if kind is not None else "did not answer"
            if kind == wanted:
                did = f"took {asked.seconds:.2f} s to answer"
            return bench.found(
                "not_available",
                f"{node} {did} when it was sent {json.dumps(body)} at {asked.sent:.2f} s; {wanted} must come within "
                f"{PROMPT:g} s.{why}", None, wanted, str(kind),
            )  # fmt: skip
    return None


def disagreement(bench: NodeBench, played: Played) -> Diagnosis | None:
    """The first node that does not read what was added."""
    done = operations(played)
    reads = final_reads(played)
    for node, sent in reads.items():
        if node in cut_off(played.plan):
            continue
        if sent is None or sent.type != "read_ok" or "value" not in sent.body:
            got = "nothing" if sent is None else json.dumps(sent.body)[:100]
            few(played, [node])
            text = f"{node} was asked for its value at {read_at(played.plan):.2f} s and answered {got}; read_ok with "
            text += f"the value must come within {PROMPT:g} s."
            return bench.found("not_available", text, sent.line if sent else None, "read_ok", got[:40])
        judge = _set_wrong if workload_of(played.plan) == "g-set" else _counter_wrong
        found = judge(bench, played, node, sent, done)
        if found is not None:
            played.sim.story.marked.add(sent.number)
            return found
    return None


def cut_off(plan: Plan) -> tuple[str, ...]:
    """Who is alone up to the end of the run."""
    return tuple(
        group[0] for mishap in plan.mishaps if mishap.until > plan.until for group in mishap.groups if len(group) == 1
    )


def _when(plan: Plan) -> str:
    at = read_at(plan)
    if alone := cut_off(plan):
        return f"at {at:.2f} s, while {alone[0]} was cut off and the others could reach each other,"
    if plan.mishaps and plan.healed is not None:
        return f"at {at:.2f} s, {at - plan.healed:.1f} s after the partition had healed,"
    return f"at {at:.2f} s,"


def _set_wrong(bench: NodeBench, played: Played, node: str, sent: Sent, done: list[Operation]) -> Diagnosis | None:
    value, line = sent.body["value"], sent.line
    if not isinstance(value, list):
        got = json.dumps(value)[:60]
        text = f"{node} read {got}: the value of a g-set is told as a list of its elements."
        return bench.found("wrong_result", text, line, "a list", got)
    got_keys = Counter(map(json.dumps, value))
    sure = {json.dumps(one.what): one for one in done if one.confirmed is not None}
    possible = {json.dumps(one.what) for one in done}
    alien = sorted(got_keys.keys() - possible)
    if alien:
        few(played, [node])
        almost = [key for key in possible if key.strip('"') == alien[0].strip('"')]
        why = f" It was added as {almost[0]}: keys of a JSON object are strings, so send a list." if almost else ""
        text = f"{node} read {alien[0]} {_when(played.plan)} which nobody had added.{why}"
        return bench.found("wrong_result", text, line, ", ".join(sorted(possible))[:120], alien[0])
    twice = next((key for key, count in got_keys.items() if count > 1), None)
    if twice is not None:
        few(played, [node])
        text = f"{node} read {twice} {got_keys[twice]} times {_when(played.plan)} in one set."
        return bench.found("lost_or_duplicated", text, line, "once", f"{got_keys[twice]} times")
    lost = [one for key, one in sure.items() if key not in got_keys]
    if not lost:
        return None
    first = lost[0]
    return _lacks(bench, played, node, first, line, f"the element {json.dumps(first.what)}", len(lost))


def _counter_wrong(bench: NodeBench, played: Played, node: str, sent: Sent, done: list[Operation]) -> Diagnosis | None:
    value, line = sent.body["value"], sent.line
    if isinstance(value, bool) or not isinstance(value, int | float):
        got = json.dumps(value)[:60]
        return bench.found("wrong_result", f"{node} read {got}: a counter is a number.", line, "a number", got)
    sure = [one for one in done if one.confirmed is not None]
    maybe = [one for one in done if one.confirmed is None][:MOST_SUMS]
    total = sum(one.what for one in sure)
    if any(value == total + sum(one.what for one in some) for some in _subsets(maybe)):
        return None
    without = next((some for some in _subsets(sure[:MOST_SUMS]) if value == total - sum(one.what for one in some)), ())
    if without:
        return _lacks(bench, played, node, without[0], line, f"the delta {without[0].what}", len(without))
    few(played, [node])
    text = (
        f"{node} read {value} {_when(played.plan)} expected {total}: all confirmed adds together. No choice of the "
        f"{len(done)} adds has that sum: "
    )
    if any(one.what < 0 for one in done) and value == sum(abs(one.what) for one in done):
        text += "a negative delta was added as a positive one."
    elif value > total:
        text += "something was counted more than once. Whoever gets a state a second time must count nothing again."
    else:
        text += "something was counted wrong."
    return bench.found("lost_or_duplicated", text, line, str(total), str(value))


def _subsets(some: Sequence[Operation]) -> Iterator[tuple[Operation, ...]]:
    """All choices, the smallest first."""
    for size in range(len(some) + 1):
        yield from itertools.combinations(some, size)


def _lacks(
    bench: NodeBench, played: Played, node: str, first: Operation, line: int | None, what: str, count: int
) -> Diagnosis:
    """A confirmed add that this node does not know of."""
    knows = [other for other in played.sim.names if _reads(played, other, first)]
    few(played, [node, first.node, *knows[:2]])
    text = f"{node} read {_when(played.plan)} without {what}"
    if count > 1:
        text += f" ({count} confirmed adds are missing)"
    text += f", which {first.node} had confirmed at {first.confirmed or 0:.2f} s."
    if workload_of(played.plan) == "g-set":
        text += f" {len(knows)} of {len(played.sim.names)} nodes know it."
    told = [sent for sent in messages_between(played.sim.story, played.sim.names) if sent.dst == node]
    heard = [sent for sent in told if sent.fate == "delivered" and sent.sent > (first.confirmed or 0)]
    if not told:
        text += f" No node ever sent anything to {node}."
    elif not heard:
        text += f" Nothing that was sent after that reached {node}; the last message to it was of {told[-1].sent:.2f} s"
        text += f" (line {told[-1].line})." if told[-1].line else "."
    partners = {sent.dst for sent in messages_between(played.sim.story, played.sim.names) if sent.src == first.node}
    if len(partners) == 1 and len(played.sim.names) > 2:
        text += (
            f" {first.node} gossips with {partners.pop()} only: with one fixed partner news takes N rounds, not log N."
        )
    elif heard and (answer := final_reads(played)[node]) is not None:
        count = sum(sent.arrived is not None and sent.arrived <= answer.sent for sent in heard)
        text += (
            f" Messages of other nodes that reached {node} in between: {count}. Who has missed the news must find it out "
            "by asking, and be answered."
        )
    return bench.found("not_converged", text, line, f"{what} at {node}", "not there")


def _reads(played: Played, node: str, one: Operation) -> bool:
    sent = final_reads(played).get(node)
    value = sent.body.get("value") if sent is not None else None
    return isinstance(value, list) and any(json.dumps(part) == json.dumps(one.what) for part in value)


# ---- what it cost


def sent_between(played: Played, since: float, until: float) -> list[Sent]:
    """Messages between nodes in a span of time."""
    return [sent for sent in messages_between(played.sim.story, played.sim.names) if since < sent.sent <= until]


def budget(nodes: int) -> int:
    """Messages for a lone operation."""
    return math.floor(2 * nodes * math.log2(nodes))


def too_dear(bench: NodeBench, played: Played) -> Diagnosis | None:
    """A lone operation's messages: those of the run less those of the same run without it."""
    done = operations(played)
    if not done:
        return None
    nodes, start, plan = len(played.sim.names), done[0].sent, played.plan
    silent = bench.play(replace(plan, asks={}), prepare)
    played_end = math.floor(read_at(plan) - start)
    for seconds in range(2, played_end + 1):
        here, there = (len(sent_between(one, start, start + seconds)) for one in (played, silent))
        most = budget(nodes) + (nodes * (seconds - 1) if seconds > 2 else 0)
        if here - there <= most:
            continue
        found = sent_between(played, start, start + seconds)
        by = Counter(sent.src for sent in found)
        node, count = by.most_common(1)[0]
        lines = Counter(sent.line for sent in found if sent.line)
        line = lines.most_common(1)[0][0] if lines else None
        few(played, [done[0].node, node])
        text = (
            f"One add at {done[0].node}, at {start:.2f} s, cost {here - there} messages between the {nodes} nodes in "
            f"{seconds} s; 2 N log2 N = {budget(nodes)} are allowed"
        )
        if seconds > 2:
            text += f", and {nodes} for every further second"
        text += f". {node} alone sent {count}{f', most at line {line}' if line else ''}."
        if here - there >= nodes * (nodes - 1):
            text += " That is everybody to everybody: whoever hears news tells a few nodes, not all."
        return bench.found("too_many_messages", text, line, f"at most {most}", str(here - there))
    return None


def too_busy(bench: NodeBench, played: Played, quiet: float) -> Diagnosis | None:
    """Messages of a cluster in which nothing has happened for a while."""
    end = read_at(played.plan)
    found, nodes = sent_between(played, quiet, end), len(played.sim.names)
    seconds = end - quiet
    most = math.floor(nodes * (seconds + 1) * DRIFT)
    if len(found) <= most:
        return None
    node, count = Counter(sent.src for sent in found).most_common(1)[0]
    lines = Counter(sent.line for sent in found if sent.line)
    line = lines.most_common(1)[0][0] if lines else None
    few(played, [node, found[0].dst])
    text = (
        f"The last add was {quiet - operations(played)[-1].sent:.0f} s ago and every node knew it, but from "
        f"{quiet:.0f} s to {end:.0f} s the {nodes} nodes sent each other {len(found)} messages, {count} of them {node}"
        f"{f', most at line {line}' if line else ''}. At most one per node and second is allowed, {most} with a "
        "margin: stop telling what everybody knows."
    )
    return bench.found("too_many_messages", text, line, f"at most {most}", str(len(found)))


def few(played: Played, nodes: Sequence[str]) -> None:
    """Draw only some nodes of a large cluster: these, and the first others. What was chosen before stays."""
    story = played.sim.story
    names = played.sim.names
    if len(names) <= LANES or story.undrawn:
        return
    kept = list(dict.fromkeys((*nodes, *names)))[:LANES]
    story.lanes = (*(name for name in names if name in kept), *(lane for lane in story.lanes if lane not in names))
    story.undrawn = frozenset(names).difference(kept)
    story.subtitle = story.subtitle or f"{len(kept)} of {len(names)} nodes are drawn"


def random_groups(rng: random.Random, names: Sequence[str], parts: int, least: int) -> tuple[tuple[str, ...], ...]:
    """A partition into so many parts, none of which is small."""
    order = rng.sample(list(names), len(names))
    spare = len(order) - parts * least
    cuts = sorted(rng.randint(0, spare) for _ in range(parts - 1))
    ends = [least * (number + 1) + cut for number, cut in enumerate(cuts)] + [len(order)]
    starts = [0, *ends[:-1]]
    return tuple(tuple(sorted(order[start:end])) for start, end in zip(starts, ends, strict=True))


def parted(at: float, until: float, groups: tuple[tuple[str, ...], ...]) -> tuple[Mishap, ...]:
    return (Mishap("partition", at, until, groups),)
