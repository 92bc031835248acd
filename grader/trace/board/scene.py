"""What there is to draw of a story: messages, events, operations of clients and faults, each with how it is drawn."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from grader.trace.board import phrases
from grader.trace.story import Fault, Happened, Sent, Story

FEW = 40  # messages up to which each is drawn in full
REPEATED, ALIKE, TICKS = 3, 8, 3  # moments at which the same was sent, the same but for numbers; timers of one name
MOST_MESSAGES = 1000  # in full, beyond which only a stretch of the story is drawn
MOST_PALE = 1500  # beyond which they are one shape, without a word on each
_DIGITS = re.compile(r"-?\d+(\.\d+)?")
_CLIENT = re.compile(r"(c\d+|reader)$")


@dataclass(frozen=True)
class Message:
    sent: Sent
    pale: bool  # a heartbeat or another repetition
    red: bool
    client: bool  # to or from one


@dataclass(frozen=True)
class Mark:
    event: Happened
    pale: bool
    red: bool


@dataclass(frozen=True)
class Operation:
    """What a client asked. `until` is when it knew or gave up, None where it never did; `ended` is "" then."""

    lane: str
    process: str
    since: float
    until: float | None
    ended: Literal["ok", "fail", "info", ""]
    asked: str
    label: str
    full: str


@dataclass(frozen=True)
class Absence:
    """A node that is down, or stands still."""

    what: Literal["down", "pause"]
    node: str
    since: float
    until: float


@dataclass
class Scene:
    """All that is drawn from `since` to `until`, in the order of time. `left_out` counts the messages that are not."""

    story: Story
    since: float
    until: float
    lanes: tuple[str, ...] = ()
    clients: frozenset[str] = frozenset()
    messages: list[Message] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)
    absences: list[Absence] = field(default_factory=list)
    bands: list[Fault] = field(default_factory=list)
    left_out: int = 0
    crowded: bool = False  # so many messages at once that they are pale just for that

    @property
    def unit(self) -> Literal["s", "step"]:
        return self.story.unit

    @property
    def steps(self) -> int:
        """The number of the last step: what happens between two belongs to the first of them."""
        return max(int(max(_happened(self.story), default=0.0)), len(self.story.words))

    def moments(self) -> list[float]:
        """Every time at which something begins or ends that is drawn in full, in order, each once."""
        found = {self.since, self.until}
        for message in self.messages:
            if not message.pale:
                found |= {message.sent.sent, *([] if message.sent.arrived is None else [message.sent.arrived])}
        found |= {mark.event.at for mark in self.marks if not mark.pale}
        for operation in self.operations:
            found |= {operation.since, *([] if operation.until is None else [operation.until])}
        found |= {at for gone in self.absences for at in (gone.since, gone.until)}
        found |= {at for band in self.bands for at in (band.since, band.until)}
        return sorted(time for time in found if self.since <= time <= self.until)


def of(story: Story, since: float | None = None, until: float | None = None) -> Scene:
    """What there is to draw of `story` from `since` to `until`. A story of very many messages is drawn around what is
    marked in it, or at its end, unless told otherwise."""
    times = list(_times(story))
    end = max(times, default=0.0)
    scene = Scene(story, min([0.0, *times]) if since is None else since, end if until is None else until)
    operations = list(_operations(story))
    asking = {op.lane for op in operations}
    scene.lanes = (*story.lanes, *sorted(asking.difference(story.lanes)))
    scene.clients = frozenset(lane for lane in scene.lanes if lane in asking or _CLIENT.match(lane))
    messages = _messages(story, scene.clients)
    if story.undrawn:  # what passes between them, or between one of them and a client
        away = story.undrawn | scene.clients
        messages = [
            one for one in messages
            if not {one.sent.src, one.sent.dst} <= away or not story.undrawn & {one.sent.src, one.sent.dst}
        ]  # fmt: skip
    among = len(messages)
    if since is None and until is None:
        full = [message.sent for message in messages if not message.pale]
        if len(full) > MOST_MESSAGES:
            scene.since, scene.until = _stretch(story, full, end)
    scene.messages = [found for found in messages if _within(scene, *_span(found.sent))]
    if sum(not message.pale for message in scene.messages) > 2 * MOST_MESSAGES:  # very many at once
        scene.crowded = True
        scene.messages = [replace(message, pale=not (message.red or message.client)) for message in scene.messages]
    scene.left_out = among - len(scene.messages)
    scene.marks = [mark for mark in _marks(story) if _within(scene, mark.event.at, mark.event.at)]
    scene.operations = [op for op in operations if _within(scene, op.since, op.since if op.until is None else op.until)]
    scene.absences = [gone for gone in _absences(story, scene.lanes, end) if _within(scene, gone.since, gone.until)]
    scene.bands = [
        _parted(band) for band in story.faults
        if band.what not in ("down", "pause") and _within(scene, band.since, band.until)
    ]  # fmt: skip
    scene.bands.sort(key=lambda band: (band.since, band.until, band.what))
    return scene


def _within(scene: Scene, since: float, until: float) -> bool:
    return until >= scene.since and since <= scene.until


def _span(sent: Sent) -> tuple[float, float]:
    return sent.sent, sent.sent if sent.arrived is None else sent.arrived


def _parted(band: Fault) -> Fault:
    """A partition told by its links, as a bridge is: its parts are the nodes that are cut off from the same others."""
    if band.what != "partition" or not band.pairs:
        return band
    cut: dict[str, set[str]] = defaultdict(set)
    for src, dst in band.pairs:
        cut[src].add(dst)
    parts: dict[frozenset[str], list[str]] = {}
    for node in sorted(cut):
        parts.setdefault(frozenset(cut[node]), []).append(node)
    return replace(band, groups=tuple(tuple(part) for part in parts.values()))


def _times(story: Story) -> Iterator[float]:
    yield story.end
    yield from _happened(story)


def _happened(story: Story) -> Iterator[float]:
    """When anything happened at a node or a client, or a fault began or ended."""
    for sent in story.sent:
        yield from _span(sent)
    yield from (event.at for event in story.events)
    yield from (fault.since for fault in story.faults)
    yield from (fault.until for fault in story.faults if fault.until < float("inf"))
    yield from (float(event.get("time") or 0) for event in story.history)


def _stretch(story: Story, full: list[Sent], end: float) -> tuple[float, float]:
    """The stretch that is drawn of a long story: it ends a little after what is marked."""
    red = [sent.arrived or sent.sent for sent in story.sent if sent.number in story.marked]
    red += [story.events[at].at for at in story.blamed if at < len(story.events)]
    times = sorted(sent.sent for sent in full)
    last = len(times) - 1
    if red:
        last = min(last, sum(time <= max(red) for time in times) + MOST_MESSAGES // 8)
    first = max(0, last - MOST_MESSAGES + 1)
    return times[first], end if last == len(times) - 1 else times[last]


def _messages(story: Story, clients: frozenset[str]) -> list[Message]:
    """All messages; pale are those that were sent before in the same words, or again and again but for numbers."""
    sent = sorted(story.sent, key=lambda message: (message.sent, message.number))
    between = [message for message in sent if message.src not in clients and message.dst not in clients]
    pale: set[int] = set()
    if len(between) > FEW and story.unit == "s":
        pale = _again(((m.number, (m.src, _words(m.body)), m.sent) for m in between), REPEATED)
        pale |= _again(((m.number, (m.src, _DIGITS.sub("0", _words(m.body))), m.sent) for m in between), ALIKE)
    return [
        Message(
            message, message.number in pale and message.number not in story.marked, message.number in story.marked,
            message.src in clients or message.dst in clients,
        )
        for message in sent
    ]  # fmt: skip


def _words(body: dict[str, Any]) -> str:
    return phrases.whole({name: value for name, value in body.items() if name not in ("msg_id", "in_reply_to")})


def _again(found: Iterable[tuple[int, Hashable, float]], least: int) -> set[int]:
    """The numbers of what occurs at `least` moments or more, without those of the first moment."""
    groups: dict[Hashable, list[tuple[float, int]]] = defaultdict(list)
    for number, key, at in found:
        groups[key].append((at, number))
    pale: set[int] = set()
    for group in groups.values():
        first = min(at for at, _ in group)
        if len({at for at, _ in group}) >= least:
            pale |= {number for at, number in group if at > first}
    return pale


def _marks(story: Story) -> list[Mark]:
    """All events; pale are timers of one name where there are many, and timers that are set. A change of
    state that says nothing is none."""
    order = sorted(range(len(story.events)), key=lambda at: (story.events[at].at, at))
    ticks: dict[tuple[str, str], list[int]] = defaultdict(list)
    for at in order:
        if story.events[at].what == "timer":
            ticks[story.events[at].node, story.events[at].text].append(at)
    pale = {at for found in ticks.values() if len(found) > TICKS and story.unit == "s" for at in found[1:]}
    silent = {at for at in order if story.events[at].what == "state" and not story.events[at].text}
    pale |= {at for at in order if story.events[at].what == "set_timer"}
    return [
        Mark(story.events[at], at in pale and at not in story.blamed, at in story.blamed)
        for at in order
        if at not in silent
    ]


def _operations(story: Story) -> Iterator[Operation]:
    """Invocations with their completions: a process has one operation at a time."""
    lanes = set(story.lanes)
    asked: dict[str, dict[str, Any]] = {}
    found: list[tuple[dict[str, Any], dict[str, Any] | None]] = []
    events = sorted(story.history, key=lambda event: float(event.get("time") or 0))
    for event in events:
        process = str(event.get("process"))
        if event.get("type") == "invoke":
            if process in asked:
                found.append((asked[process], None))
            asked[process] = event
        elif process in asked:
            found.append((asked.pop(process), event))
    found += [(event, None) for event in asked.values()]
    for begin, end in sorted(found, key=lambda pair: (float(pair[0].get("time") or 0), str(pair[0].get("process")))):
        process = str(begin.get("process"))
        base = process.rpartition(".")[0]
        lane = process if process in lanes or base not in lanes else base
        ended: Any = str(end.get("type")) if end else ""
        f, key, error = str(begin.get("f")), begin.get("key"), (end or {}).get("error")
        value = end.get("value") if end and ended == "ok" and f == "read" else begin.get("value")
        yield Operation(
            lane, process, float(begin.get("time") or 0), None if end is None else float(end.get("time") or 0), ended,
            phrases.operation(f, key, begin.get("value"), "asked"), phrases.operation(f, key, value, ended, error),
            phrases.operation(f, key, value, ended, error, 600),
        )  # fmt: skip


def _absences(story: Story, lanes: tuple[str, ...], end: float) -> list[Absence]:
    """When nodes were down or stood still: as faults tell it, and where none does, as crashes and restarts do."""
    found = [
        Absence(fault.what, node, fault.since, min(fault.until, end))
        for fault in story.faults
        if fault.what == "down" or fault.what == "pause"
        for group in fault.groups
        for node in group
        if node in lanes
    ]
    told = {(gone.what, gone.node, gone.since) for gone in found}
    begun: dict[str, tuple[Literal["down", "pause"], float]] = {}

    def over(node: str, at: float) -> None:
        what, since = begun.pop(node)
        if (what, node, since) not in told:
            found.append(Absence(what, node, since, at))

    for event in sorted(story.events, key=lambda event: event.at):
        if event.node not in lanes:
            continue
        if event.what in ("crash", "pause", "restart", "resume") and event.node in begun:
            over(event.node, event.at)
        if event.what == "crash" or event.what == "pause":
            begun[event.node] = ("down" if event.what == "crash" else "pause", event.at)
    for node in list(begun):
        over(node, end)
    found = [gone for gone in found if gone.until > gone.since]
    return sorted(found, key=lambda gone: (gone.since, gone.node, gone.what))
