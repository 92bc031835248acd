"""What clients began, were told and read in a run, and what befell nodes in it, in words."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from grader.exercises.common.nodes import cuts
from grader.nodes.clients import Asked
from grader.nodes.plan import Played
from grader.nodes.runs import Run, place, same
from grader.says import listed
from grader.trace.story import Happened, Sent, Story

COORDINATOR = "n0"
OUTCOMES = ("committed", "aborted")
PROMPT = 2.0  # seconds
DECIDED = 5.5  # seconds after which all is decided and unlocked: 5, and messages on their way, and slow clocks


@dataclass(frozen=True)
class Txn:
    """A transaction as its client knows it: when it asked, and every answer that came, in order."""

    name: Any
    writes: dict[str, dict[str, Any]]
    sent: float
    number: int  # its msg_id
    told: tuple[Sent, ...]

    @property
    def outcome(self) -> str | None:
        return self.told[0].type if self.told else None

    @property
    def answered(self) -> float | None:
        return self.told[0].arrived if self.told else None

    @property
    def label(self) -> str:
        return json.dumps(self.name)

    def places(self) -> Iterator[tuple[str, str]]:
        for node, entries in self.writes.items():
            for key in entries:
                yield node, key


@dataclass(frozen=True)
class Read:
    """A read; `answer` is None if none came in time."""

    node: str
    key: str
    sent: float
    answer: Sent | None
    asked: Asked

    @property
    def value(self) -> Any:
        return None if self.answer is None else self.answer.body.get("value")


class History(Run):
    """A run, and what its clients began and read, in the order of their requests."""

    def __init__(self, played: Played) -> None:
        super().__init__(played)
        self.txns = [self._txn(one) for one in self.asked if one.ask.body["type"] == "begin"]
        self.reads = [
            Read(one.ask.node, one.ask.body["key"], one.sent, one.reply, one)
            for one in self.asked if one.ask.body["type"] == "read"
        ]  # fmt: skip

    def _txn(self, asked: Asked) -> Txn:
        assert asked.request is not None
        body, number = asked.ask.body, asked.request.body["msg_id"]

        def about(sent: Sent) -> bool:
            return bool(sent.body.get("in_reply_to") == number or same(sent.body.get("txn"), body["txn"]))

        return Txn(body["txn"], body["writes"], asked.sent, number, tuple(self.replies(asked.client, about)))

    def in_vain(self, txns: list[Txn], until: float) -> str:
        """What a participant told the coordinator about one of these, after all faults, with no message in return."""
        for txn in txns:
            said = [one for one in self.between(self.whole_since, until) if mentions(one.body, txn.name)]
            for node in txn.writes:
                asked = [one.sent for one in said if (one.src, one.dst) == (node, COORDINATOR)]
                if len(asked) > 1 and not any((one.src, one.dst) == (COORDINATOR, node) for one in said):
                    return (
                        f" From {asked[0]:.2f} s on, {node} sent {COORDINATOR} {len(asked)} messages about {txn.label}, and "
                        f"{COORDINATOR} sent {node} none about it. The coordinator must decide every transaction, after a "
                        "restart too. It must answer a participant that asks for the outcome, even if that is an abort."
                    )
        return ""

    def told_of_the_abort(self, txns: list[Txn], until: float) -> str:
        """Of one of these that was aborted: that messages about it reached all its participants, none of which crashed."""
        crashed = {event.node for event in self.story.events if event.what == "crash"}
        for txn in txns:
            if txn.outcome != "aborted" or crashed & txn.writes.keys():
                continue
            since = txn.told[0].sent
            told = [
                one for node in txn.writes for one in self.reached(node, since, until)
                if one.src == COORDINATOR and one.sent >= since and mentions(one.body, txn.name)
            ]  # fmt: skip
            if {one.dst for one in told} == txn.writes.keys():
                return (
                    f" From {since:.2f} s on, when {COORDINATOR} told the client of the abort, it also sent "
                    f"{listed(dict.fromkeys(one.type for one in told))} about {txn.label} to {listed(txn.writes)}, and it arrived there. "
                    "A participant that is told of an abort must unlock the keys, too."
                )
        return ""


def mentions(body: Any, name: Any) -> bool:
    """Whether a message's body holds this value anywhere, as it is or as its text."""
    if isinstance(body, dict):
        return any(mentions(part, name) or same(key, name) for key, part in body.items())
    if isinstance(body, list):
        return any(mentions(part, name) for part in body)
    return same(body, name) or body == json.dumps(name) or body == str(name)


DECIDE = (
    "a decision counts only once it is on disk. Write it before the first message that tells it, and tell it again after "
    "a crash."
)
PROMISE = (
    "what a participant sends is a promise. Write the yes to disk before you send the vote, and the values before you "
    "confirm the outcome."
)
ALONE = "a participant that has voted yes must never decide alone. Let it ask until it is told the outcome."
TELL = (
    "after a restart the coordinator goes on from its disk. Tell each decision to every participant that has not "
    "confirmed it, and decide each open transaction."
)
LAST = (
    "when all nodes crash at once, only their disks are left. Tell a client only what follows from the disks, and keep "
    "it on disk from then on."
)
RECOVER = (
    "a participant may crash between any two writes, and goes on from its disk. Keep the yes on disk until the values "
    "are stored. After a restart, lock the keys of such a yes again, and ask for the outcome."
)
AGAIN = (
    "a message may arrive once more, long after its transaction is over, and after a restart. Keep on disk what is over, "
    "so that such a message changes nothing."
)


@dataclass(frozen=True)
class Account:
    """What befell, in sentences; the advice that fits; the line of the message that should not have been sent yet; and
    the events to draw in red."""

    sentences: tuple[str, ...] = ()
    advice: str = ""
    line: int | None = None
    blamed: frozenset[int] = field(default_factory=frozenset)

    def added_to(self, text: str, instead: str = "") -> str:
        """A diagnosis with all of it, or with other advice `instead` of this."""
        befell = f" What happened before: {'. '.join(self.sentences)}." if self.sentences else ""
        advice = instead or (f" The rule for such a run: {self.advice}" if self.advice else "")
        start = text[0] if text[:2].strip("n").isdigit() else text[0].upper()  # n1 stays n1
        return f"{start}{text[1:]}{befell}{advice}"


@dataclass(frozen=True)
class _Crash:
    event: Happened
    writes: Sequence[Happened]
    sends: Sequence[Sent]
    on: Sent | None  # the message it was handling

    def words(self, steps: bool) -> str:
        name, at = self.event.node, self.event.at
        when = f" (step {at:g})" if steps else f" at {at:.2f} s"
        wrote = listed(f"written {_quoted(write.text.partition(' = ')[0])}{place(write.line)}" for write in self.writes)
        sent = listed(f"sent {sent.type} to {sent.dst}{place(sent.line)}" for sent in self.sends)
        if sent and not wrote:
            return f"{name} crashed{when}, in a step in which it had {sent} but written nothing to disk"
        if wrote and not sent:
            return f"{name} crashed{when}, in a step in which it had {wrote} but sent nothing"
        return f"{name} crashed{when}" + (f", after it had {wrote} and {sent}" if wrote else "")


def account(story: Story, actions: Sequence[dict[str, Any]] = ()) -> Account:
    """What befell in this story; `actions` are the steps of a schedule, where it is one."""
    crashes = [_crash(story, number, actions) for number, e in enumerate(story.events) if e.what == "crash"]
    sentences = [crash.words(bool(actions)) for crash in _without_repeats(crashes)]
    if actions:
        timers = [event for event in story.events if event.what == "timer"]
        sentences += [f"{event.node}'s timer {event.text!r} went off (step {event.at:g})" for event in timers]
        sentences += [f"{sent.src}'s {sent.type} to {sent.dst} arrived twice" for sent in story.sent if sent.copy]
    else:
        sentences += cuts(story)
    advice, line = _advice(story, crashes, bool(actions))
    blamed = frozenset(number for number, event in enumerate(story.events) if event.what == "crash")
    return Account(tuple(sentences), advice, line, blamed)


def _quoted(key: str) -> str:
    """A key of a disk in quotes, once also where the key itself is a text of JSON."""
    return key if key[:1] == key[-1:] == '"' else repr(key)


def _advice(story: Story, crashes: Sequence[_Crash], steps: bool) -> tuple[str, int | None]:
    for crash in crashes:
        if not crash.sends or crash.writes:
            continue
        if crash.event.node != COORDINATOR:
            return PROMISE, crash.sends[0].line
        if crash.on is None or crash.on.type != "begin":
            return DECIDE, crash.sends[0].line
    if any(fault.what == "partition" for fault in story.faults):
        return ALONE, None
    if crashes and {crash.event.node for crash in crashes} >= set(story.lanes) - _clients(story):
        return LAST, None
    if any(crash.event.node == COORDINATOR for crash in crashes):
        return TELL, None
    if any(_again_after(story, crash.event) for crash in crashes):
        return AGAIN, None
    if crashes:
        return RECOVER, None
    timers = [event for event in story.events if event.what == "timer" and event.node != COORDINATOR]
    return (ALONE, None) if timers and steps else ("", None)


def _again_after(story: Story, crash: Happened) -> bool:
    """Whether a copy of a message reached the node after it had crashed."""
    return any(sent.copy and sent.dst == crash.node and (sent.arrived or 0.0) > crash.at for sent in story.sent)


def _clients(story: Story) -> set[str]:
    return {lane for lane in story.lanes if not lane.strip("n").isdigit()}


def _crash(story: Story, number: int, actions: Sequence[dict[str, Any]]) -> _Crash:
    event = story.events[number]
    before = [other for other in story.events[:number] if (other.node, other.at) == (event.node, event.at)]
    writes = [other for other in before if other.what == "write"]
    sends = [sent for sent in story.sent if (sent.src, sent.sent) == (event.node, event.at) and not sent.copy]
    if actions:  # what it sent when it began anew stands at the same step
        after = actions[round(event.at) - 1].get("crash_after") or 0
        sends = sends[: max(0, after - len(writes))]
    on = next((s for s in story.sent if s.dst == event.node and s.arrived == event.at and s.fate == "delivered"), None)
    return _Crash(event, writes, sends, on)


def _without_repeats(crashes: Sequence[_Crash]) -> Iterable[_Crash]:
    """Not one sentence for each node where all went down at once and did nothing."""
    idle: dict[float, list[_Crash]] = {}
    for crash in crashes:
        if crash.writes or crash.sends:
            yield crash
        else:
            idle.setdefault(crash.event.at, []).append(crash)
    for at, together in idle.items():
        names = ", ".join(crash.event.node for crash in together)
        yield _Crash(Happened("crash", names, at), (), (), None) if len(together) > 1 else together[0]
