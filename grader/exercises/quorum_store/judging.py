"""What is wrong with a run of a quorum store: histories that are not linearizable, and what the messages say of why."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from grader.nodes import states
from grader.nodes.clients import DEFINITE, Ask, Asked
from grader.nodes.histories.checker import Checked, linearizable
from grader.nodes.histories.history import Operation, pair
from grader.nodes.plan import Played
from grader.nodes.runs import Run, Served, served
from grader.says import listed
from grader.trace.story import Sent, Story
from grader.verdict import Diagnosis, Kind

Event = dict[str, Any]
INSTANT = 1e-6  # seconds: no message takes so little


class View(Run):
    """A run of stores, with its write_quorum and read_quorum."""

    def __init__(self, played: Played) -> None:
        super().__init__(played)
        self.quorums: dict[str, int] = dict(played.plan.members[0].settings)

    def told(self, kind: Kind, asked: Asked, text: str, expected: str, got: str) -> Diagnosis:
        """What is wrong with how a node served a request."""
        text = f"{self.plan.label}. {asked.ask.node} {text}"
        return self.wrong(kind, text, shown=[asked.reply], expected=expected, got=got)


def what(asked: Asked) -> str:
    body = asked.ask.body
    which = f"write of {body['value']!r} to" if body["type"] == "write" else "read of"
    return f"the {which} key {body['key']!r} that {asked.client} sent at {asked.sent:.2f} s"


def shown(answer: dict[str, Any]) -> str:
    """What a client got, for people."""
    if answer.get("type") == "error":
        return f"error {answer.get('code')}"
    value = f" with the value {json.dumps(answer['value'])[:80]}" if "value" in answer else ""
    return f"{answer.get('type')}{value}"


def checked(story: Story) -> Checked | None:
    """Whether clients saw a linearizable store; None if they did. Clients are called by the node that served them."""
    events = list(_named(story))
    if not events:
        return None
    found = linearizable(pair(events, "the run"), "kv")
    return None if found.valid is True else found


def explored(view: states.View, asks: Mapping[str, Sequence[Ask]]) -> Checked | None:
    """The same of a history that the explorer came to."""
    events = []
    for at, (client, number, answer) in enumerate(view.history):
        if number < 0:
            continue
        body = asks[client][number].body
        event = {"process": client, "type": "invoke", "f": body["type"], "key": body["key"], "time": at}
        event["value"] = body.get("value")
        if answer is not None:
            event |= _ended(body, answer)
        events.append(event)
    found = linearizable(pair(events, "the run"), "kv") if events else None
    return None if found is None or found.valid is True else found


def _ended(body: Event, answer: Event) -> Event:
    if answer.get("type") == f"{body['type']}_ok":
        return {"type": "ok", "value": answer.get("value") if body["type"] == "read" else body.get("value")}
    return {"type": "fail" if definite(answer) else "info"}


def _named(story: Story) -> Iterator[Event]:
    """The history, whose processes are called "c1 on n2". Steps are whole numbers, with their order kept."""
    nodes: dict[str, list[str]] = {}
    for one in served(story):
        nodes.setdefault(one.client, []).append(one.node)
    names: dict[Any, str] = {}
    for event in story.history:
        process = event["process"]
        if event["type"] == "invoke":
            names[process] = f"{process} on {nodes[_client(process)].pop(0)}"
        time = event["time"] if story.unit == "s" else int(event["time"])
        yield {**event, "process": names[process], "time": time}


def _client(process: Any) -> str:
    """Who "c1.2" is, or "c1.2 on n3": a client that gave a request up goes on as another process."""
    return str(process).partition(" ")[0].partition(".")[0]


def not_linearizable_run(run: View) -> Diagnosis | None:
    return not_linearizable(run.file, run.story, run.quorums)


def not_linearizable(file: str, story: Story, quorums: dict[str, int]) -> Diagnosis | None:
    """The diagnosis of a run in which clients saw what no single copy could have shown; marks the messages."""
    found = checked(story)
    if found is None:
        return None
    reason = found.reason or "No order of the operations explains what clients saw."
    if story.unit == "step":
        reason = in_steps(reason)
    blamed = [one for one in (_of(story, op) for op in found.pair) if one is not None]
    story.marked |= {one.answer.number for one in blamed if one.answer is not None}
    line, why = evidence(story, blamed, quorums)
    story.title = story.title or "Not linearizable"
    of = f"write_quorum = {quorums['write_quorum']}, read_quorum = {quorums['read_quorum']}. "
    return Diagnosis("not_linearizable", f"{of}{reason} {why}".strip(), None, file, line)


def in_steps(reason: str) -> str:
    """A sentence of the checker, whose times are steps of a schedule."""
    reason = re.sub(r"at (\d+)-(\d+) s\b", r"in steps \1-\2", reason)
    reason = re.sub(r"from (\d+) s on\b", r"from step \1 on", reason)
    return re.sub(r"\b(\d+) s\b", r"step \1", reason)


def _of(story: Story, op: Operation) -> Served | None:
    """The request that an operation of the history was."""
    client = _client(op.process)
    sent = {(one.src, one.body.get("msg_id")): one.sent for one in reversed(story.sent)}
    own = [one for one in served(story) if one.client == client]
    return min(own, key=lambda one: abs(sent[client, one.body["msg_id"]] - op.start), default=None)


def evidence(story: Story, blamed: Sequence[Served], quorums: dict[str, int]) -> tuple[int | None, str]:
    """What the messages of these operations say: (the learner's line, sentences)."""
    answers = [(one, one.answer) for one in blamed if one.answer is not None]
    alone = [(one, answer) for one, answer in answers if _alone(story, one, answer)]
    # What the last of them stored is of no use to the others. And what a node sends for other requests can hide that it
    # made no second round trip, but not feign it.
    earlier = [pair for pair in answers if any(other.came > pair[1].sent for other in blamed)]
    ways = (
        (_too_few_asked, alone),
        (_not_written_back, earlier),
        (_too_few_stored, [pair for pair in alone if pair in earlier]),
    )
    for way, which in ways:
        for one, answer in which:
            if answer.type in ("read_ok", "write_ok") and (found := way(_Steps.of(story, one, answer, quorums))):
                return answer.line, found
    line = next((one.answer.line for one in reversed(blamed) if one.answer is not None), None)
    if tied := _tied(story):
        return line, tied
    crashed = sorted({event.node for event in story.events if event.what == "crash"})
    if crashed:
        return line, (
            f"{listed(crashed)} crashed in this run, and only the disk survives a crash. Write every copy to disk before you "
            "acknowledge it. After a restart use no timestamp and no request number a second time."
        )
    return line, (
        "The messages do not show why. Check four things. A write's timestamp must be higher than every timestamp that its "
        "first round trip found, which a node's clock does not ensure. No two writes have the same timestamp. A node replaces "
        "its copy only by one with a higher timestamp. Only replies of different nodes count towards a quorum."
    )


def _tied(story: Story) -> str:
    """In words, if two copies of a key on disks, one of them on several, differ in nothing but the values of two writes."""
    by = {json.dumps(one.body["value"]): one.node for one in served(story) if one.body["type"] == "write"}
    disks: dict[str, dict[str, set[str]]] = {}  # by the key on disk and the copy's text: the nodes that wrote it
    for event in story.events:
        key, _, text = event.text.partition(" = ")
        if event.what == "write" and text[:1] + text[-1:] in ("[]", "{}") and len(text) < 200:  # not cut short
            with contextlib.suppress(ValueError):  # a key may hold " = ", too
                json.loads(text)
                disks.setdefault(key, {}).setdefault(text, set()).add(event.node)
    for copies in disks.values():
        parts = {text: dict(_parts(json.loads(text))) for text in copies}
        for one, other in combinations(parts, 2):
            mine, theirs = parts[one], parts[other]
            differ = [at for at in mine | theirs if mine.get(at) != theirs.get(at)]
            values = {each.get(at, "") for each in (mine, theirs) for at in differ}
            places = [at for at in mine if values <= {each.get(at) for each in parts.values()}]
            counted = any(part.isdigit() for at, part in mine.items() if at not in differ)
            several = len(copies[one]) > 1 or len(copies[other]) > 1
            if len(differ) == 1 and differ == places and values <= by.keys() and counted and several:
                nodes = sorted({by[value] for value in values})
                advice = "Put the node's id into the timestamp, so that two nodes never choose the same one."
                if len(nodes) == 1:
                    advice = "It must choose each timestamp once. Count on from its own copy, as it is at that moment."
                if any((event.what, [event.node]) == ("crash", nodes) for event in story.events):
                    advice = (
                        f"{nodes[0]} crashed in this run, and only the disk survives a crash. Write a timestamp to its own disk "
                        "before any other node hears of it, and choose none a second time after a restart."
                    )
                return (
                    f"{min(copies[one])} wrote {one} to disk, and {min(copies[other])} wrote {other}. These copies differ only in "
                    f"the value, so no node can tell which is newer. {listed(nodes)} served these two writes. {advice}"
                )
    return ""


def _parts(entry: Any, at: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    """What an entry on disk holds, as JSON texts, by where it is."""
    if not isinstance(entry, dict | list):
        yield at, json.dumps(entry)
        return
    for name, part in entry.items() if isinstance(entry, dict) else enumerate(entry):
        yield from _parts(part, (*at, str(name)))


def _alone(story: Story, one: Served, answer: Sent) -> bool:
    """Whether its node served no other request meanwhile: then what it sent and heard belongs to this one."""
    return not any(
        other.node == one.node and other.came <= answer.sent
        and (other.answer is None or other.answer.sent >= one.came)
        for other in served(story)
        if (other.client, other.body.get("msg_id")) != (one.client, one.body.get("msg_id"))
    )  # fmt: skip


@dataclass(frozen=True)
class _Steps:
    """How a request was served: when its node first sent something to others that answers to a first round could be
    part of (`second`, None if it never did), and who had sent it something that arrived in time, since when.

    What goes to one node alone, in the moment in which a message came from it, may be an answer to that message or a
    round: `second` takes it for a round, and `surely` for an answer."""

    story: Story
    one: Served
    answer: Sent
    quorums: dict[str, int]
    second: float | None
    surely: float | None
    heard: list[Sent]

    @classmethod
    def of(cls, story: Story, one: Served, answer: Sent, quorums: dict[str, int]) -> _Steps:
        own, until = one.node, answer.sent
        nodes = {name for name in story.lanes if not name.startswith("c")} - {own}
        told: dict[tuple[str, str], float] = {}  # what it sent to whom, when first: what is sent again is no new round
        for sent in story.sent:
            if sent.src == own and sent.dst in nodes and one.came <= sent.sent <= until and not sent.copy:
                told.setdefault((sent.dst, repr(sent.body)), sent.sent)
        heard = [
            sent for sent in story.sent
            if sent.dst == own and sent.src in nodes and sent.fate == "delivered" and sent.arrived is not None
            and one.came <= sent.arrived <= until
        ]  # fmt: skip
        rounds = 1 if quorums["read_quorum"] > 1 else 0
        second, surely = (
            instants[rounds] if len(instants) > rounds else None
            for instants in (_rounds(told, heard), _rounds(told, heard, surely=True))
        )
        return cls(story, one, answer, quorums, second, surely, heard)

    def since(self, time: float, until: float) -> tuple[list[str], list[str]]:
        """The nodes of whom something arrived after `time` and until then that was sent after `time`; those of whom only
        older came."""
        own = [s for s in self.heard if s.arrived is not None and time + INSTANT < s.arrived <= until]
        fresh = {sent.src for sent in own if sent.sent > time + INSTANT}
        return sorted(fresh), sorted({sent.src for sent in own} - fresh)


def _rounds(told: Mapping[tuple[str, str], float], heard: Sequence[Sent], surely: bool = False) -> list[float]:
    """When the node sent something to others that is no answer to what one of them had asked it. An answer goes to the
    one node alone whose message came in that moment, and which had sent it before it can have been asked itself, unless
    all that may be an answer is to be left out."""
    asked: dict[str, float] = {}  # whom it had sent something, since when
    for (node, _), at in told.items():
        asked[node] = min(at, asked.get(node, at))
    found = []
    for at in sorted(set(told.values())):
        nodes = {node for (node, _), then in told.items() if then == at}
        answers = len(nodes) == 1 and any(
            sent.src in nodes and sent.arrived == at and (surely or sent.sent < asked[sent.src] + INSTANT)
            for sent in heard
        )
        if not answers:
            found.append(at)
    return found


def _too_few_asked(steps: _Steps) -> str:
    """It went on before enough replicas can have told what they hold."""
    until = steps.answer.sent if steps.surely is None else steps.surely
    fresh, late = steps.since(steps.one.came, until)
    needed = steps.quorums["read_quorum"]
    if 1 + len(fresh) >= needed:
        return ""
    return (
        f"{steps.one.node} went on with this {steps.one.body['type']} {when(steps.story, until)}, but {_who(fresh)} had "
        f"sent it a message since the request came. With itself that is {1 + len(fresh)} of read_quorum = {needed}.{_too_old(steps, late)}"
    )


def _not_written_back(steps: _Steps) -> str:
    if steps.answer.type != "read_ok" or steps.quorums["write_quorum"] < 2:
        return ""
    if steps.second is not None and steps.second < steps.answer.sent:
        return ""
    return (
        f"{steps.one.node} answered an earlier read with {json.dumps(steps.answer.body.get('value'))[:60]} "
        f"{when(steps.story, steps.answer.sent)} without a second round trip. A read must write its value back to "
        "write_quorum replicas before it answers. Otherwise the next read may find an older copy."
    )


def _too_few_stored(steps: _Steps) -> str:
    """It answered before enough replicas can have acknowledged what it had them store."""
    needed = steps.quorums["write_quorum"]
    at = steps.answer.sent if steps.second is None else steps.second
    fresh, late = steps.since(at, steps.answer.sent)
    if 1 + len(fresh) >= needed:
        return ""
    return (
        f"{steps.one.node} answered the {steps.one.body['type']} {when(steps.story, steps.answer.sent)}, but "
        f"{_who(fresh)} had acknowledged the value by then. With itself that is {1 + len(fresh)} of "
        f"write_quorum = {needed}.{_too_old(steps, late)}"
    )


def _who(nodes: Sequence[str]) -> str:
    return f"only {listed(nodes)}" if nodes else "no other replica"


def _too_old(steps: _Steps, late: Sequence[str]) -> str:
    if not late:
        return " Wait for more replies before you go on."
    life = [event for event in steps.story.events if event.what == "restart" and event.node == steps.one.node]
    back = any(event.at <= steps.answer.sent for event in life)
    return (
        f" The messages from {listed(late)} had been sent before this round began, so they reply to an earlier round and "
        f"must not count. Give every round of requests a number of its own{', also after a restart' if back else ''}."
    )


def when(story: Story, time: float) -> str:
    """ "at 1.20 s", "at step 7" """
    return f"at {time:.3f} s" if story.unit == "s" else f"at step {int(time)}"


def definite(answer: dict[str, Any] | None) -> bool:
    """Whether an answer promises that nothing happened."""
    return answer is not None and answer.get("type") == "error" and answer.get("code") in DEFINITE
