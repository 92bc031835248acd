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

from grader import tally
from grader.exercises.common.nodes import bounded, skewed
from grader.nodes.bench import NodeBench
from grader.nodes.clients import Ask, Asked
from grader.nodes.network import Network
from grader.nodes.plan import Mishap, Plan, Played
from grader.nodes.runs import Run, in_time, place
from grader.nodes.sim import Member, cluster
from grader.says import counted, listed
from grader.trace.story import Sent
from grader.verdict import Diagnosis

READER = "reader"
PROMPT = 2.0  # seconds in which a request is answered; every run ends so long after all nodes were asked
MANY = 64
RECENT = 4.5  # seconds before the end
FIXED = 6  # messages to one partner alone, which no random choice explains
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
    return skewed(cluster(size, "GossipStore", {"workload": workload}), rng)


def workload_of(plan: Plan) -> str:
    return str(plan.members[0].settings["workload"])


def add(workload: str, node: str, what: Any, after: float) -> Ask:
    return Ask(node, {"type": "add", "element" if workload == "g-set" else "delta": what}, after)


def adds(
    rng: random.Random, workload: str, nodes: Sequence[str], each: Sequence[Any], until: float
) -> dict[str, tuple[Ask, ...]]:
    """One client for each thing that is added, at random nodes and times."""
    return {
        f"c{number}": (add(workload, rng.choice(list(nodes)), what, rng.uniform(0, until)),)
        for number, what in enumerate(each, 1)
    }


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


class View(Run):
    """A run: all adds by time, and what each node told the reader."""

    def __init__(self, played: Played) -> None:
        super().__init__(played)
        self.workload = workload_of(played.plan)
        self.done = [self._operation(asked) for asked in self.asked if asked.ask.body["type"] == "add"]
        told = {sent.body.get("in_reply_to"): sent for sent in reversed(self.replies(READER, lambda _: True))}
        self.read = {node: told.get(number) for number, node in enumerate(self.names, 1)}

    @staticmethod
    def _operation(asked: Asked) -> Operation:
        body = asked.ask.body
        confirmed = asked.answered if asked.answer and asked.answer.get("type") == "add_ok" else None
        return Operation(asked.ask.node, body.get("element", body.get("delta")), asked.sent, confirmed)

    def knows(self, node: str, one: Operation) -> bool:
        sent = self.read[node]
        value = sent.body.get("value") if sent is not None else None
        return isinstance(value, list) and any(json.dumps(part) == json.dumps(one.what) for part in value)

    @property
    def when(self) -> str:
        """When all were asked, and how the network was then."""
        at, plan = read_at(self.plan), self.plan
        if alone := cut_off(plan):
            return f"At {at:.2f} s, while {alone[0]} was cut off and the others could reach each other,"
        if plan.mishaps and plan.healed is not None:
            return f"At {at:.2f} s, {at - plan.healed:.1f} s after the partition healed,"
        return f"At {at:.2f} s,"


# ---- what is wrong with answers


def unanswered(run: View) -> Diagnosis | None:
    """The first request that was not answered as it must be, promptly, whatever the partition."""
    for asked in (asked for client in run.played.clients.values() for asked in client.done):
        body, wanted = asked.ask.body, f"{asked.ask.body['type']}_ok"
        kind = asked.answer.get("type") if asked.answer is not None else None
        if kind == wanted and in_time(asked, PROMPT):
            continue
        cut = any(cut.at <= asked.sent < cut.until for cut in run.cuts)
        why = " Do not wait for a partition to heal: serve the request from the node's own state." if cut else ""
        did = f"answered {json.dumps(asked.answer)[:100]}" if kind is not None else "did not answer"
        if kind == wanted:
            did = f"took {asked.seconds:.2f} s to answer"
        return run.wrong(
            "not_available",
            f"{asked.ask.node} {did} when {asked.client} sent it {json.dumps(body)} at {asked.sent:.2f} s. Answer {wanted} "
            f"within {PROMPT:g} s.{why}", expected=wanted, got=str(kind),
        )  # fmt: skip
    return None


def disagreement(run: View) -> Diagnosis | None:
    """The first node that does not read what was added."""
    for node, sent in run.read.items():
        if node in cut_off(run.plan):
            continue
        if sent is None or sent.type != "read_ok" or "value" not in sent.body:
            got = "nothing" if sent is None else json.dumps(sent.body)[:100]
            few(run.played, [node])
            text = f"{node} was asked for its value at {read_at(run.plan):.2f} s and answered {got}. Answer read_ok "
            text += f"with the value within {PROMPT:g} s."
            line = sent.line if sent else None
            return run.wrong("not_available", text, line=line, expected="read_ok", got=got[:40])
        found = (_set_wrong if run.workload == "g-set" else _counter_wrong)(run, node, sent)
        if found is not None:
            return found
    return None


def cut_off(plan: Plan) -> tuple[str, ...]:
    """Who is alone up to the end of the run."""
    lasting = (mishap for mishap in plan.mishaps if mishap.until > plan.until)
    return tuple(group[0] for mishap in lasting for group in mishap.groups if len(group) == 1)


def _set_wrong(run: View, node: str, sent: Sent) -> Diagnosis | None:
    value, shown = sent.body["value"], [sent]
    if not isinstance(value, list):
        got = json.dumps(value)[:60]
        text = f"{node} answered a read with the value {got}. Send the value of a g-set as a list of its elements."
        return run.wrong("wrong_result", text, shown=shown, expected="a list", got=got)
    got_keys = Counter(map(json.dumps, value))
    possible = {json.dumps(one.what) for one in run.done}
    alien = sorted(got_keys.keys() - possible)
    if alien:
        few(run.played, [node])
        almost = [key for key in possible if key.strip('"') == alien[0].strip('"')]
        why = f" It was added as {almost[0]}. Send a list: keys of a JSON object become strings." if almost else ""
        text = f"{run.when} {node} read {alien[0]}, which no client had added.{why}"
        wanted = ", ".join(sorted(possible))[:120]
        return run.wrong("wrong_result", text, shown=shown, expected=wanted, got=alien[0])
    twice = next((key for key, count in got_keys.items() if count > 1), None)
    if twice is not None:
        few(run.played, [node])
        got = f"{got_keys[twice]} times"
        text = f"{run.when} {node} read a list with {twice} in it {got}. List each element of the set once."
        return run.wrong("lost_or_duplicated", text, shown=shown, expected="once", got=got)
    sure = {json.dumps(one.what): one for one in run.done if one.confirmed is not None}
    lost = [one for key, one in sure.items() if key not in got_keys]
    what = f"the element {json.dumps(lost[0].what)}" if lost else ""
    return _lacks(run, node, sent, lost, what, f"a set without {what}") if lost else None


def _counter_wrong(run: View, node: str, sent: Sent) -> Diagnosis | None:
    value, done = sent.body["value"], run.done
    if isinstance(value, bool) or not isinstance(value, int | float):
        got = json.dumps(value)[:60]
        text = f"{node} answered a read with the value {got}. Send the value of a pn-counter as a number."
        return run.wrong("wrong_result", text, shown=[sent], expected="a number", got=got)
    sure = [one for one in done if one.confirmed is not None]
    maybe = [one for one in done if one.confirmed is None][:MOST_SUMS]
    total = sum(one.what for one in sure)
    if any(value == total + sum(one.what for one in some) for some in _subsets(maybe)):
        return None
    choices = [some for some in _subsets(sure[:MOST_SUMS]) if value == total - sum(one.what for one in some)]
    without = min(choices, key=lambda some: sum(not _apart(run, node, one) for one in some), default=())
    if without:
        what = f"the delta {without[0].what}"
        return _lacks(run, node, sent, without, what, f"{value}, expected {total}, as if {what} were missing")
    few(run.played, [node])
    text = f"{run.when} {node} read {value}, expected {total}, the sum of all confirmed adds."
    if any(one.what < 0 for one in done) and value == sum(abs(one.what) for one in done):
        text += f" {value} is the sum of the deltas without their signs. Keep the sign of a negative delta."
    elif not maybe:
        text += f" No subset of the {len(done)} adds has the sum {value}, so an add was counted twice or with a wrong "
        text += "amount. Count nothing again when the same state arrives again."
    return run.wrong("lost_or_duplicated", text, shown=[sent], expected=str(total), got=str(value))


def _apart(run: View, node: str, one: Operation) -> bool:
    """Whether this node was cut off from where that was added."""
    cuts = [cut for cut in run.cuts if cut.at <= one.sent < cut.until]
    return any(node not in group for cut in cuts for group in cut.groups if one.node in group)


def _subsets(some: Sequence[Operation]) -> Iterator[tuple[Operation, ...]]:
    """All choices, the smallest first."""
    for size in range(len(some) + 1):
        yield from itertools.combinations(some, size)


def _lacks(run: View, node: str, answer: Sent, lost: Sequence[Operation], what: str, read: str) -> Diagnosis:
    """Confirmed adds that this node does not know of; `what` names the first, `read` says what was read."""
    first, count = lost[0], len(lost)
    confirmed = first.confirmed or 0
    knows = [other for other in run.names if run.knows(other, first)]
    few(run.played, [node, first.node, *knows[:2]])
    text = f"{run.when} {node} read {read}"
    if count > 1:
        text += f" ({count} confirmed adds are missing)"
    text += f". {first.node} had confirmed this add at {confirmed:.2f} s."
    if run.workload == "g-set":
        text += f" {len(knows)} of {len(run.names)} nodes had it."
    else:
        total = answer.body["value"] + sum(one.what for one in lost)
        right = sum(sent is not None and sent.body.get("value") == total for sent in run.read.values())
        text += f" {right} of {len(run.names)} nodes read {total}."
    told = [sent for sent in run.between(until=answer.sent) if sent.dst == node]
    heard = [
        sent for sent in told
        if sent.fate == "delivered" and sent.sent > confirmed and sent.arrived is not None and sent.arrived <= answer.sent
    ]  # fmt: skip
    if not told:
        text += f" No node ever sent a message to {node}."
    elif not heard:
        last = told[-1]
        ending = "" if last.fate == "delivered" else " It did not arrive."
        text += f" No message that was sent after {confirmed:.2f} s reached {node}. The last message to {node} was sent by {last.src} "
        text += f"at {last.sent:.2f} s{place(last.line)}.{ending}"
    sent_by = [sent for sent in run.between() if sent.src == first.node]
    partners = sorted({sent.dst for sent in sent_by})
    recent = {sent.dst for sent in sent_by if sent.sent > read_at(run.plan) - RECENT}
    healed = max((cut.until for cut in run.cuts if cut.until < answer.sent), default=0.0)
    after = max(confirmed, healed)
    asked = [sent.sent for sent in run.between(after, answer.sent) if sent.src == node and sent.dst in knows]
    asking = (
        f" After {after:.2f} s, {node} itself sent {counted(len(asked), 'message')} to nodes that had it in the end, the last at "
        f"{max(asked, default=0.0):.2f} s. Check whether a node that gets such a message sees what {node} lacks, and answers with it."
    )
    if len(partners) == 1 and partners[0] in cut_off(run.plan):
        text += f" {first.node} sent messages only to {partners[0]}, which was cut off. Choose peers at random, so that news "
        text += "needs no node in particular."
    elif recent and recent <= set(cut_off(run.plan)):
        text += f" From {read_at(run.plan) - RECENT:.2f} s on {first.node} sent messages only to {listed(sorted(recent))}, which "
        text += "was cut off. Turn to another peer also when one does not answer."
    elif len(partners) == 1 and len(run.names) > 2 and len(sent_by) >= FIXED:
        text += (
            f" {first.node} sent {len(sent_by)} messages, all to {partners[0]}. Choose peers at random: with one fixed partner "
            "news takes N rounds instead of log N."
        )
    elif heard:
        latest = max(sent.arrived or 0.0 for sent in heard)
        text += f" {counted(len(heard), 'message')} that other nodes sent after {confirmed:.2f} s reached {node}, the last at {latest:.2f} s."
        own = max((sent.sent for sent in run.between(until=answer.sent) if sent.src == node), default=0.0)
        quiet = 0 < own < healed
        if quiet:
            text += (
                f" {node} itself sent its last message at {own:.2f} s, before the partition healed at {healed:.2f} s."
            )
        if first.node == node:
            text += f" It is {node}'s own add. Check that {node} stored it, and that no message took it away again."
        elif asked:
            text += asking
        elif run.workload == "g-set":
            text += " Let a node that may have missed an add ask its peers, again and again, "
            text += "also when it has heard nothing new for a long time, " * quiet + "and let them answer."
        else:
            text += _of_one_name(run, first)
            text += f" Check whether this add was among what these messages brought, and whether {node} counted it."
    elif asked:
        text += asking
    elif healed and all(sent.sent < healed for sent in told):
        text += (
            f" From {healed:.2f} s on, when the partition had healed, no node sent a message to {node}. News that was lost must "
            "be sent again later, or asked for."
        )
    return run.wrong("not_converged", text, shown=[answer], expected=f"{what} at {node}", got="not there")


def _of_one_name(run: View, lost: Operation) -> str:
    """About a greater add at another node, where neither node can have heard of the other's when it confirmed its own."""
    for one in run.done:
        first, then = sorted((one, lost), key=lambda each: each.sent)
        greater = one.what * lost.what > 0 and abs(one.what) > abs(lost.what)
        if (
            greater
            and one.confirmed
            and one.node != lost.node
            and not run.reached(then.node, first.sent, then.confirmed or 0.0)
        ):
            return (
                f" {one.node} confirmed an add of {one.what} at {one.confirmed:.2f} s. Neither of the two nodes had heard of the "
                "other's add. If both count under one name, a merge keeps only the greater count. Let each node count under its "
                "own name."
            )
    return ""


# ---- what it cost


def _busiest(messages: Sequence[Sent]) -> tuple[str, int, int | None, str]:
    """Who sent most of them, how many, the line that sent most of all, and a sentence about the first such lines."""
    node, count = Counter(sent.src for sent in messages).most_common(1)[0]
    lines = Counter(sent.line for sent in messages if sent.line).most_common(3)
    most = listed(f"{sent:,} from line {line}" for line, sent in lines)
    return node, count, lines[0][0] if lines else None, f" Most of them came from these lines: {most}." if lines else ""


def _repeated(messages: Sequence[Sent], least: int) -> str:
    """In words, with a space before them, if at least so many messages were what their sender sent the same node at once."""
    same = Counter((one.src, one.dst, one.sent, json.dumps(one.body)) for one in messages if not one.copy)
    if not same or sum(same.values()) - len(same) < least:
        return ""
    [((src, dst, at, _), times)] = same.most_common(1)
    return f" At {at:.2f} s {src} sent {dst} the same message {times} times. Send a node each news once."


def too_dear(run: View, bench: NodeBench) -> Diagnosis | None:
    """A lone operation's messages: those of the run less those of the same run without it."""
    if not run.done or len(run.names) < MANY:
        return None
    nodes, start, plan = len(run.names), run.done[0].sent, run.plan
    budget = math.floor(2 * nodes * math.log2(nodes))
    silent = Run(bench.play(replace(plan, asks={}), prepare))
    for seconds in range(2, math.floor(read_at(plan) - start) + 1):
        found, there = (one.between(start, start + seconds) for one in (run, silent))
        most, cost = budget + (nodes * (seconds - 1) if seconds > 2 else 0), len(found) - len(there)
        tally.note("messages for one add", cost, most, "messages", where=f"{nodes} nodes, {seconds} s",
                   reference=nodes * (nodes - 1), of="each node telling every other")  # fmt: skip
        if cost <= most:
            continue
        node, count, line, where = _busiest(found)
        few(run.played, [run.done[0].node, node])
        text = (
            f"One add at {run.done[0].node}, at {start:.2f} s, cost {cost:,} messages between the {nodes} nodes within "
            f"{seconds} s. At most {most:,} are allowed: 2 N log2 N = {budget:,}"
        )
        if seconds > 2:
            text += f", and {nodes} more for every second after the first"
        text += f". The busiest node is {node}, which sent {count:,}.{where}"
        if cost >= nodes * (nodes - 1):
            text += " That is enough for every node to tell every other node. Let a node tell news to a few nodes, not to all."
        elif again := _repeated(found, cost - most):
            text += again
        else:
            text += " Let each node tell news to fewer nodes, or stop sooner."
        return run.wrong("too_many_messages", text, line=line, expected=f"at most {most}", got=str(cost))
    return None


def too_busy(run: View, quiet: float) -> Diagnosis | None:
    """Messages of a cluster in which nothing has happened for a while."""
    if len(run.names) < MANY or not run.done:
        return None
    end, nodes = read_at(run.plan), len(run.names)
    found, most = run.between(quiet, end), math.floor(nodes * (end - quiet + 1) * DRIFT)
    tally.note("messages with no news", len(found), most, "messages", where=f"{nodes} nodes, {end - quiet:.0f} s")
    if len(found) <= most:
        return None
    node, count, line, where = _busiest(found)
    few(run.played, [node, found[0].dst])
    text = (
        f"From {quiet:.0f} s to {end:.0f} s the {nodes} nodes sent each other {len(found):,} messages, although the last "
        f"add was at {run.done[-1].sent:.2f} s. At most one message per node and second is allowed, here {most} with a "
        f"margin. The busiest node is {node}, which sent {count:,}.{where} Stop sending what every node already knows."
    )
    return run.wrong("too_many_messages", text, line=line, expected=f"at most {most}", got=str(len(found)))


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
