"""Causal broadcast, seen from outside: what was broadcast, what each node delivered, and what had to come first.

Birman, Schiper, Stephenson 1991, "Lightweight causal and atomic group multicast". A broadcast follows causally what its
node had delivered or broadcast before it; that is read from the messages between nodes and their clients alone.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from grader.nodes.plan import Played
from grader.nodes.runs import Run, place
from grader.says import counted
from grader.trace.story import Sent
from grader.verdict import Diagnosis


def key_of(sent: Sent) -> str:
    """The broadcast that a message to or from a client is about, as text."""
    return json.dumps(sent.body.get("message"), sort_keys=True)


@dataclass(frozen=True)
class Cast:
    """One broadcast: when its node got it, and the casts that it follows."""

    key: str
    node: str
    at: float
    past: frozenset[str] = frozenset()


def local(node: str) -> str:
    """The client that a node delivers to."""
    return f"c{node[1:]}"


class View(Run):
    """A run: broadcasts by text (equal texts share a list), and what each node delivered, in its order."""

    def __init__(self, played: Played) -> None:
        super().__init__(played)
        self.casts: dict[str, list[Cast]] = {}
        self.delivered: dict[str, list[Sent]] = {node: [] for node in self.names}
        known = defaultdict[str, set[str]](set)
        at: list[tuple[float, int, int, str, Sent]] = []
        for sent in self.story.sent:
            if sent.type == "broadcast" and sent.dst in self.delivered and sent.fate == "delivered":
                if sent.src not in self.delivered and sent.arrived is not None:
                    at.append((sent.arrived, 0, sent.number, sent.dst, sent))  # heard before what is done about it
            elif sent.type == "deliver" and sent.src in self.delivered and sent.dst == local(sent.src):
                at.append((sent.sent, 1, sent.number, sent.src, sent))
        for time, kind, _, node, sent in sorted(at, key=lambda one: one[:3]):
            key = key_of(sent)
            if kind == 0:
                self.casts.setdefault(key, []).append(Cast(key, node, time, frozenset(known[node])))
            else:
                self.delivered[node].append(sent)
            known[node].add(key)
        self.wanted = Counter({key: len(casts) for key, casts in self.casts.items()})

    @property
    def complete(self) -> bool:
        """Whether every node has delivered everything."""
        return all(Counter(map(key_of, got)) >= self.wanted for got in self.delivered.values())

    def brought(self, node: str, key: str) -> Iterator[Sent]:
        """Messages between nodes that brought this broadcast to `node`, as far as it is in them as it is."""
        nodes = set(self.names)
        for sent in self.story.sent:
            if sent.dst == node and sent.src in nodes and key in json.dumps(sent.body, sort_keys=True):
                yield sent

    def mark_all(self, *keys: str) -> None:
        """Have what is about these broadcasts drawn in red."""
        self.mark(*(sent for sent in self.story.sent if sent.type in ("broadcast", "deliver") and key_of(sent) in keys))


# ---- what is wrong


def disorder(run: View) -> Diagnosis | None:
    """The first delivery before something that it follows causally; texts are unique."""
    worst: tuple[float, str, Sent, Cast, list[str]] | None = None
    for node, delivered in run.delivered.items():
        had: set[str] = set()
        for sent in delivered:
            key = key_of(sent)
            cast = run.casts.get(key, [None])[0]
            if cast is None:
                return unknown(run, node, sent)
            missing = sorted(cast.past - had - {key})
            if missing and (worst is None or sent.sent < worst[0]):
                worst = sent.sent, node, sent, cast, missing
            had.add(key)
    if worst is None:
        return None
    _, node, sent, cast, missing = worst
    before = min((run.casts[key][0] for key in missing), key=lambda one: one.at)
    run.mark_all(cast.key, before.key)
    if before.node == cast.node:
        why = f"{cast.node} broadcast {before.key} at {before.at:.2f} s and {cast.key} at {cast.at:.2f} s"
        habit = "Deliver one sender's broadcasts in the order in which it sent them."
    else:
        first = next(one for one in run.delivered[cast.node] if key_of(one) == before.key)
        why = f"{cast.node} had delivered {before.key} at {first.sent:.2f} s"
        why += f", before it broadcast {cast.key} at {cast.at:.2f} s"
        habit = "Causal order means: no node sees an answer before its question."
    later = next((one for one in run.delivered[node] if key_of(one) == before.key), None)
    when = f"only at {later.sent:.2f} s" if later else "never"
    return run.wrong(
        "wrong_result",
        f"{node} delivered {cast.key} at {sent.sent:.2f} s{place(sent.line)}, but {before.key} {when}. {why}. {habit}"
        f"{_held(run, node, sent, cast)} Hold {cast.key} back until {node} has delivered all that {cast.node} had "
        "delivered or broadcast before it.",
        shown=[sent], expected=f"{before.key} before {cast.key}", got=f"{cast.key} first",
    )  # fmt: skip


def _held(run: View, node: str, delivery: Sent, cast: Cast) -> str:
    times = [
        sent.arrived for sent in run.brought(node, cast.key) if sent.fate == "delivered" and sent.arrived is not None
    ]
    if not times:
        return ""
    held = delivery.sent - min(times)
    if held < 1e-6:
        return f" {node} delivered {cast.key} as soon as it arrived."
    return f" {cast.key} had arrived {held:.2f} s earlier, but {node} did not wait long enough."


def unknown(run: View, node: str, sent: Sent) -> Diagnosis:
    """A delivery of what nobody broadcast."""
    got = key_of(sent)[:80]
    what = f"{node} sent a deliver at {sent.sent:.2f} s{place(sent.line)} that "
    what += f"holds {got}, but no client broadcast that" if "message" in sent.body else 'has no "message"'
    return run.wrong(
        "wrong_result",
        f'{what}. Send each broadcast\'s message unchanged: {{"type": "deliver", "message": ...}} to {local(node)}.',
        shown=[sent], expected=", ".join(run.casts)[:99], got=got,
    )  # fmt: skip


def missing(run: View) -> Diagnosis | None:
    """What a node had not delivered by the end."""
    for node, delivered in run.delivered.items():
        got = Counter(map(key_of, delivered))
        alien = next((sent for sent in delivered if key_of(sent) not in run.casts), None)
        if alien is not None:
            return unknown(run, node, alien)
        lacking = run.wanted - got
        if lacking:
            cast = min((run.casts[key][-1] for key in lacking), key=lambda one: one.at)
            return _lacks(run, node, cast, got[cast.key])
    return None


def _lacks(run: View, node: str, cast: Cast, got: int) -> Diagnosis:
    run.mark_all(cast.key)
    end, wanted = run.sim.time, run.wanted[cast.key]
    if wanted > 1 and got:
        text = (
            f"Clients broadcast {cast.key} {wanted} times, but {node} had delivered only {got} of these messages by "
            f"{end:.1f} s. Broadcasts of equal text are separate messages. Tell them apart by sender and number."
        )
        return run.wrong("lost_or_duplicated", text, expected=f"{wanted} times", got=f"{got} times")
    text = f"{cast.node} broadcast {cast.key} at {cast.at:.2f} s, but {node} had not delivered it by {end:.1f} s."
    tried = [sent for sent in run.brought(node, cast.key) if sent.src != node and sent.sent >= cast.at]
    arrived = next((sent for sent in tried if sent.fate == "delivered"), None)
    line = None
    told = (sent for sent in run.story.sent if sent.src == node and sent.type == "deliver")
    wrong_client = next((sent for sent in told if sent.dst != local(node)), None)
    if wrong_client is not None:
        line = wrong_client.line
        text += f" {node} sent a deliver to {wrong_client.dst}{place(line)}. Send it to {local(node)}, the client of {node}."
    elif node == cast.node:
        text += " A node must deliver its own broadcasts, too."
    elif arrived is not None and arrived.arrived is not None:
        text += f" A message that contains {cast.key} reached {node} at {arrived.arrived:.2f} s. {_ready(run, node, cast, arrived)}"
    elif tried:
        line = tried[-1].line
        count = "once" if len(tried) == 1 else f"{len(tried)} times, the last time"
        text += f" It was sent to {node} {count} at {tried[-1].sent:.2f} s{place(line)}, and never arrived. Send it "
        text += f"again until {node} confirms this very message."
    return run.wrong(
        "lost_or_duplicated", text, line=line, expected=f"{cast.key} delivered on {node}", got="not delivered"
    )


def _ready(run: View, node: str, cast: Cast, arrived: Sent) -> str:
    """From when on a node could deliver what had arrived, and what it has to do then."""
    past = [sent for sent in run.delivered[node] if key_of(sent) in cast.past]
    if Counter(map(key_of, past)) != Counter({key: run.wanted[key] for key in cast.past}):
        return f"Check what {node} did with that message."
    last = max(past, key=lambda sent: sent.sent, default=None)
    if last is None or last.sent < (arrived.arrived or 0.0):
        text = f"All that {cast.key} follows had been delivered on {node} before, so {node} could deliver {cast.key} at once. "
        return text + (_counts_too_much(run, cast, arrived) or f"Find out why {node} did not.")
    return (
        f"{cast.key} follows other broadcasts, and {node} delivered the last of these, {key_of(last)}, at {last.sent:.2f} s. "
        f"From then on {node} could deliver {cast.key}. After each delivery, look again at all messages that wait."
    )


def _counts_too_much(run: View, cast: Cast, arrived: Sent) -> str:
    """In words, if a message holds a number for the broadcaster that is greater than how many it has broadcast."""
    count = sum(one.node == cast.node and one.at <= arrived.sent for casts in run.casts.values() for one in casts)
    for clock in arrived.body.values():
        number = clock.get(cast.node) if isinstance(clock, dict) and clock.keys() <= set(run.names) else None
        if isinstance(number, int) and number > count:
            return (
                f"The message holds {json.dumps(clock)}, but {cast.node} had broadcast only {counted(count, 'message')} by then. "
                "If that is the clock that delivery waits for, it must count broadcasts only, and no deliveries."
            )
    return ""


def doubled(run: View) -> Diagnosis | None:
    """What a node delivered more often than it was broadcast."""
    for node, delivered in run.delivered.items():
        got: Counter[str] = Counter()
        for sent in delivered:
            key = key_of(sent)
            got[key] += 1
            if got[key] <= run.wanted[key]:
                continue
            if key not in run.casts:
                return unknown(run, node, sent)
            first = next(one for one in delivered if key_of(one) == key)
            run.mark_all(key)
            times = "once" if run.wanted[key] == 1 else f"{run.wanted[key]} times"
            came = [one for one in run.brought(node, key) if one.fate == "delivered" and one.arrived == sent.sent]
            how = ""
            if came:
                how = f" The last delivery came with a message from {came[-1].src}"
                how += ", a duplicate that the network made." if came[-1].copy else f"{place(came[-1].line)}."
            return run.wrong(
                "lost_or_duplicated",
                f"{node} delivered {key} {got[key]} times, first at {first.sent:.2f} s and last at {sent.sent:.2f} s"
                f"{place(sent.line)}. It was broadcast {times}.{how} Remember every delivered message by sender and "
                "number, and skip it when it comes again.",
                shown=[sent], expected=times, got=f"{got[key]} times",
            )  # fmt: skip
    return None
