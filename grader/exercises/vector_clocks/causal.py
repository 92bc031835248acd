"""Causal broadcast, seen from outside: what was broadcast, what each node delivered, and what had to come first.

Birman, Schiper, Stephenson 1991, "Lightweight causal and atomic group multicast". A broadcast follows causally what its
node had delivered or broadcast before it; that is read from the messages between nodes and their clients alone.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from grader.nodes.bench import NodeBench
from grader.nodes.plan import Played
from grader.trace.story import Sent
from grader.verdict import Diagnosis


def key_of(message: Any) -> str:
    return json.dumps(message, sort_keys=True)


@dataclass(frozen=True)
class Cast:
    """One broadcast: when its node got it, and the casts that it follows."""

    key: str
    node: str
    at: float
    past: frozenset[str] = frozenset()


@dataclass
class Seen:
    """All of a run: broadcasts by text (equal texts share a list), and what each node delivered, in its order."""

    casts: dict[str, list[Cast]] = field(default_factory=dict)
    delivered: dict[str, list[Sent]] = field(default_factory=dict)

    @property
    def wanted(self) -> Counter[str]:
        return Counter({key: len(casts) for key, casts in self.casts.items()})


def local(node: str) -> str:
    """The client that a node delivers to."""
    return f"c{node[1:]}"


def seen(played: Played) -> Seen:
    """What was broadcast and delivered."""
    found, known = Seen(), defaultdict[str, set[str]](set)
    found.delivered = {node: [] for node in played.sim.names}
    at: list[tuple[float, int, int, str, Sent]] = []
    for sent in played.sim.story.sent:
        if sent.type == "broadcast" and sent.dst in found.delivered and sent.fate == "delivered":
            if sent.src not in found.delivered and sent.arrived is not None:
                at.append((sent.arrived, 0, sent.number, sent.dst, sent))  # heard before what is done about it
        elif sent.type == "deliver" and sent.src in found.delivered and sent.dst == local(sent.src):
            at.append((sent.sent, 1, sent.number, sent.src, sent))
    for time, kind, _, node, sent in sorted(at, key=lambda one: one[:3]):
        key = key_of(sent.body.get("message"))
        if kind == 0:
            found.casts.setdefault(key, []).append(Cast(key, node, time, frozenset(known[node])))
        else:
            found.delivered[node].append(sent)
        known[node].add(key)
    return found


def complete(found: Seen) -> bool:
    """Whether every node has delivered everything."""
    wanted = found.wanted
    return all(Counter(key_of(sent.body.get("message")) for sent in got) >= wanted for got in found.delivered.values())


# ---- what is wrong


def disorder(bench: NodeBench, played: Played) -> Diagnosis | None:
    """The first delivery before something that it follows causally; texts are unique."""
    found = seen(played)
    worst: tuple[float, str, Sent, Cast, list[str]] | None = None
    for node, delivered in found.delivered.items():
        had: set[str] = set()
        for sent in delivered:
            key = key_of(sent.body.get("message"))
            cast = found.casts.get(key, [None])[0]
            if cast is None:
                return unknown(bench, played, found, node, sent)
            missing = sorted(cast.past - had - {key})
            if missing and (worst is None or sent.sent < worst[0]):
                worst = sent.sent, node, sent, cast, missing
            had.add(key)
    if worst is None:
        return None
    _, node, sent, cast, missing = worst
    before = min((found.casts[key][0] for key in missing), key=lambda one: one.at)
    mark(played, {cast.key, before.key}, sent)
    if before.node == cast.node:
        why = f"{cast.node} broadcast {before.key} at {before.at:.2f} s and {cast.key} at {cast.at:.2f} s"
        habit = "Not even the order of one sender is kept."
    else:
        first = next(one for one in found.delivered[cast.node] if key_of(one.body.get("message")) == before.key)
        why = f"{cast.node} had delivered {before.key} at {first.sent:.2f} s"
        why += f" when it broadcast {cast.key} at {cast.at:.2f} s"
        habit = "That is causal order: who saw the answer must have seen the question."
    later = next((one for one in found.delivered[node] if key_of(one.body.get("message")) == before.key), None)
    when = f"only at {later.sent:.2f} s" if later else "never"
    return bench.found(
        "wrong_result",
        f"{node} delivered {cast.key} at {sent.sent:.2f} s{_line(sent)}, and {before.key}, which comes before it, "
        f"{when}: {why}. {habit} {_held(played, node, sent, cast)}",
        sent.line, f"{before.key} before {cast.key}", f"{cast.key} first",
    )  # fmt: skip


def _held(played: Played, node: str, delivery: Sent, cast: Cast) -> str:
    arrived = next(_arrivals(played, node, cast.key), None)
    if arrived is None or arrived.arrived is None:
        return ""
    held = delivery.sent - arrived.arrived
    if held < 1e-6:
        return f"It was delivered as it arrived: hold it back until all that {cast.node} had delivered is delivered."
    return f"It had arrived at {arrived.arrived:.2f} s and was held back for {held:.2f} s, which was not long enough."


def _arrivals(played: Played, node: str, key: str) -> Iterator[Sent]:
    """Messages between nodes that brought this broadcast to `node`, as far as it is in them as it is."""
    nodes = set(played.sim.names)
    for sent in played.sim.story.sent:
        if sent.dst == node and sent.src in nodes and sent.fate == "delivered" and key in key_of(sent.body):
            yield sent


def unknown(bench: NodeBench, played: Played, found: Seen, node: str, sent: Sent) -> Diagnosis:
    """A delivery of what nobody broadcast."""
    played.sim.story.marked.add(sent.number)
    got = key_of(sent.body.get("message"))[:80]
    what = "its deliver has no message" if "message" not in sent.body else f"it delivered {got}"
    return bench.found(
        "wrong_result",
        f"{node} at {sent.sent:.2f} s{_line(sent)}: {what}, which nobody had broadcast. Send the broadcast's message "
        f'as it was: {{"type": "deliver", "message": ...}} to {local(node)}.', sent.line, ", ".join(found.casts)[:99], got,
    )  # fmt: skip


def missing(bench: NodeBench, played: Played) -> Diagnosis | None:
    """What a node had not delivered by the end."""
    found = seen(played)
    for node, delivered in found.delivered.items():
        got = Counter(key_of(sent.body.get("message")) for sent in delivered)
        alien = next((sent for sent in delivered if key_of(sent.body.get("message")) not in found.casts), None)
        if alien is not None:
            return unknown(bench, played, found, node, alien)
        lacking = found.wanted - got
        if lacking:
            cast = min((found.casts[key][-1] for key in lacking), key=lambda one: one.at)
            return _lacks(bench, played, node, cast, got[cast.key], len(found.casts[cast.key]))
    return None


def _lacks(bench: NodeBench, played: Played, node: str, cast: Cast, got: int, wanted: int) -> Diagnosis:
    mark(played, {cast.key})
    end = played.sim.time
    if wanted > 1:
        text = (
            f"{cast.key} was broadcast {wanted} times, and {node} had delivered it {got} times by {end:.1f} s: two "
            "broadcasts of equal text are two messages. Tell them apart by sender and number."
        )
        return bench.found("lost_or_duplicated", text, None, f"{wanted} times", f"{got} times")
    text = f"{node} had not delivered {cast.key} by {end:.1f} s, which {cast.node} broadcast at {cast.at:.2f} s."
    nodes = set(played.sim.names)
    tried = [
        sent for sent in played.sim.story.sent
        if sent.dst == node and sent.src in nodes and sent.src != node and cast.key in key_of(sent.body)
    ]  # fmt: skip
    arrived = next((sent for sent in tried if sent.fate == "delivered"), None)
    line = None
    wrong_client = next((sent for sent in played.sim.story.sent if sent.src == node and sent.type == "deliver"
                         and sent.dst != local(node)), None)  # fmt: skip
    if wrong_client is not None:
        line = wrong_client.line
        text += f" It sends deliver to {wrong_client.dst}{_line(wrong_client)}; its client is {local(node)}."
    elif node == cast.node:
        text += " A node delivers its own broadcasts too."
    elif arrived is not None and arrived.arrived is not None:
        text += f" A message with it had arrived at {arrived.arrived:.2f} s: what is {node} still waiting for?"
    elif tried:
        line = tried[-1].line
        times = "once" if len(tried) == 1 else f"{len(tried)} times"
        text += (
            f" It was sent to {node} {times}, last at {tried[-1].sent:.2f} s{_line(tried[-1])}, and was lost on the "
            "way: send until an answer says that it arrived."
        )
    return bench.found("lost_or_duplicated", text, line, f"{cast.key} delivered on {node}", "not delivered")


def doubled(bench: NodeBench, played: Played) -> Diagnosis | None:
    """What a node delivered more often than it was broadcast."""
    found = seen(played)
    for node, delivered in found.delivered.items():
        got: Counter[str] = Counter()
        for sent in delivered:
            key = key_of(sent.body.get("message"))
            got[key] += 1
            if got[key] <= found.wanted[key]:
                continue
            if key not in found.casts:
                return unknown(bench, played, found, node, sent)
            first = next(one for one in delivered if key_of(one.body.get("message")) == key)
            mark(played, {key}, sent)
            brought = [one for one in _arrivals(played, node, key) if one.arrived == sent.sent]
            how = ""
            if brought:
                how = f" The second time as a message from {brought[-1].src} came"
                how += ", a copy that the network made." if brought[-1].copy else ", sent once more."
            return bench.found(
                "lost_or_duplicated",
                f"{node} delivered {key} twice, at {first.sent:.2f} s and at {sent.sent:.2f} s{_line(sent)}; it was "
                f"broadcast once.{how} Remember what is delivered, by sender and number.", sent.line, "once", "twice",
            )  # fmt: skip
    return None


def _line(sent: Sent) -> str:
    return f" (line {sent.line})" if sent.line else ""


def mark(played: Played, keys: set[str], *more: Sent) -> None:
    """Have what is about these broadcasts drawn in red."""
    story = played.sim.story
    story.marked |= {sent.number for sent in more}
    for sent in story.sent:
        if sent.type in ("broadcast", "deliver") and key_of(sent.body.get("message")) in keys:
            story.marked.add(sent.number)
