"""What clients asked and were told of transactions in a run, and what befell nodes in it, in words."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from grader.exercises.common.nodes import cuts
from grader.exercises.serializable_store import answered, plans
from grader.exercises.serializable_store.answered import Problem, Txn
from grader.nodes.clients import Asked
from grader.nodes.plan import Played
from grader.nodes.runs import Run, place
from grader.says import listed
from grader.trace.story import Happened, Sent, Story
from grader.verdict import Diagnosis, Kind

MOST_TOLD = 3  # lost, late or doubled messages that are named


class History(Run):
    """A run, and the transactions of its clients, in the order of their requests."""

    def __init__(self, played: Played) -> None:
        super().__init__(played, getattr(played.notes, "clients", ()))  # of a script, if it has one
        self._of = dict(enumerate(self.asked))

    @property
    def txns(self) -> list[Txn]:
        """All of them. Their answers must have the right shape."""
        return [self._txn(number, asked) for number, asked in enumerate(self.asked)]

    def _txn(self, number: int, asked: Asked) -> Txn:
        status, ops = answered.ended(asked.ask.body, asked.answer)
        known = asked.answered is not None and status != "info"
        returned = asked.answered if known and asked.answered is not None else float("inf")
        return Txn(number, asked.client, asked.ask.node, ops, status, asked.sent, returned, asked.answer)

    def label(self, asked: Asked) -> str:
        return self._txn(self.asked.index(asked), asked).label

    def broken(
        self, kind: Kind, text: str, *shown: Asked | Sent | None, expected: str = "", got: str = "", why: bool = True,
        alone: Happened | None = None,
    ) -> Diagnosis:  # fmt: skip
        """What is wrong, with what befell nodes before it, and the line of what was shown last, or of what an owner wrote
        when it decided alone."""
        account = befell(self.story) if why else Account()
        if alone is not None:
            advice = (
                f" {alone.node} wrote {alone.text[:80]!r} at {alone.at:.3f} s{place(alone.line)}, and no message from another node "
                "had reached it since it first wrote this value to its disk. An owner that has voted must never decide alone: "
                "let it ask until it is told the outcome."
            )
            account = replace(account, advice=advice, line=alone.line)
        self.story.blamed |= account.blamed
        return self.wrong(
            kind, account.added_to(text), title=TITLES.get(kind, ""), shown=shown, line=account.line, expected=expected,
            got=got,
        )  # fmt: skip

    def problem(self, found: Problem | None) -> Diagnosis | None:
        """The same of something that is wrong with the history."""
        if found is None:
            return None
        shown = [self._of[txn.index] for txn in found.shown]
        alone = self._alone(found.shown[0]) if found.kind == "not_atomic" and found.shown else None
        return self.broken(found.kind, found.text, *shown, expected=found.expected, got=found.got, alone=alone)

    def _alone(self, txn: Txn) -> Happened | None:
        """What an owner wrote of this transaction under another key of its disk than before, with no message in between."""
        for key, value in txn.appends():
            node, first = plans.owner(json.loads(key), self.names), None
            for event in self.story.events:
                where, _, text = event.text.partition(" = ")
                if event.what != "write" or event.node != node or node == txn.node or event.at < txn.called:
                    continue
                if not re.search(rf"[\[ ]{value}[\],]", text):
                    continue
                first = first or event
                heard = self.reached(node, first.at + 1e-9, event.at)
                if event.at > first.at and where != first.text.partition(" = ")[0] and not heard:
                    return event
        return None


TITLES: dict[Kind, str] = {
    "not_linearizable": "Not strict-serializable",
    "not_atomic": "Not all or nothing",
    "not_durable": "Acknowledged and gone",
    "lost_or_duplicated": "Lost or applied twice",
    "not_available": "Not answered as promised",
    "too_many_rounds": "Too many round trips",
    "wrong_result": "A wrong answer",
}


@dataclass(frozen=True)
class Account:
    """What befell, in sentences; advice that a crash shows to be fitting; its line; and events to draw in red."""

    sentences: tuple[str, ...] = ()
    advice: str = ""
    line: int | None = None
    blamed: frozenset[int] = field(default_factory=frozenset)

    def added_to(self, text: str) -> str:
        before = f" What happened to nodes and messages: {'; '.join(self.sentences)}." if self.sentences else ""
        return f"{text}{before}{self.advice}"


def befell(story: Story, actions: Sequence[dict[str, Any]] = ()) -> Account:
    """What befell in this story; `actions` are the steps of a schedule, where it is one."""
    sentences: list[str] = []
    advice, line = "", None
    idle: dict[float, list[str]] = {}
    for number, event in enumerate(story.events):
        if event.what != "crash":
            continue
        writes, sends = _step(story, number, actions)
        if not writes and not sends:
            idle.setdefault(event.at, []).append(event.node)
            continue
        wrote = listed(f"written {write.text.partition(' = ')[0]!r}{place(write.line)}" for write in writes[-2:])
        sent = listed(f"sent {one.type} to {one.dst}{place(one.line)}" for one in sends[-2:])
        when = f"in step {event.at:g}" if actions else f"at {event.at:.3f} s"
        done = listed(filter(None, (wrote, sent)))
        nothing = ", with nothing written to disk in that step" if not writes else ""
        sentences.append(f"{event.node} crashed {when}, right after it had {done}{nothing}")
        clients = {lane for lane in story.lanes if not lane[1:].isdigit()}
        asked = any(
            one.dst == event.node and one.arrived == event.at and one.fate == "delivered" and one.src in clients
            for one in story.sent
        )  # what a node asks others for a client's transaction promises nothing yet
        if sends and not writes and not advice and not asked and sends[-1].dst not in clients:
            advice = " A node forgets all but its disk. What it promises in a message must be on disk before the message is sent."
            line = sends[-1].line
    sentences += [
        f"{listed(nodes)} crashed {f'in step {at:g}' if actions else f'at {at:.3f} s'}" for at, nodes in idle.items()
    ]
    sentences += cuts(story)
    sentences += _of_messages(story, bool(actions))
    blamed = frozenset(number for number, event in enumerate(story.events) if event.what == "crash")
    return Account(tuple(sentences), advice, line, blamed)


def _of_messages(story: Story, steps: bool) -> list[str]:
    """Which messages between nodes were lost, very late, or came twice."""
    nodes = {event.node for event in story.events if event.what == "start"} or set(story.lanes)
    between = [sent for sent in story.sent if sent.src in nodes and sent.dst in nodes and sent.src != sent.dst]
    found = []
    for what, some in (
        ("was lost", [sent for sent in between if sent.fate == "dropped"]),
        ("came twice", [sent for sent in between if sent.copy and sent.fate == "delivered"]),
        (
            "came more than 2 s late",
            [s for s in between if not steps and not s.copy and s.arrived and s.arrived - s.sent > 2],
        ),
    ):
        told = [
            f"{sent.src}'s {sent.type} to {sent.dst}" + ("" if steps else f" (sent at {sent.sent:.3f} s)")
            for sent in some[:MOST_TOLD]
        ]
        more = f" and {len(some) - MOST_TOLD} more" if len(some) > MOST_TOLD else ""
        if some:
            found.append(f"{', '.join(told)}{more} {what if len(some) == 1 else what.replace('was', 'were')}")
    return found


def _step(story: Story, number: int, actions: Sequence[dict[str, Any]]) -> tuple[list[Happened], list[Sent]]:
    """What a node had written and sent in the step in which it crashed."""
    event = story.events[number]
    before = [other for other in story.events[:number] if (other.node, other.at) == (event.node, event.at)]
    writes = [other for other in before if other.what == "write"]
    sends = [sent for sent in story.sent if (sent.src, sent.sent) == (event.node, event.at) and not sent.copy]
    if actions:  # what it sent when it began anew stands at the same step
        after = actions[round(event.at) - 1].get("crash_after") or 0
        sends = sends[: max(0, after - len(writes))]
    return writes, sends
