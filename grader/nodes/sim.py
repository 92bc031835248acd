"""A cluster of nodes in virtual time: the same seed gives the same run, on every machine.

Nodes do what they do through `actors`; this world decides when messages arrive, who is down, and what clocks say. No
message takes less than the network's least delay: so what different nodes do within it cannot depend on each other,
and is asked of them together.
"""

from __future__ import annotations

import heapq
import json
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from grader.lost import Lost
from grader.nodes.actors import Actors, Turn
from grader.nodes.life import SHORT_TEXT, Birth, Step
from grader.nodes.network import Links, Network, split
from grader.trace.story import Fault, Happened, Sent, Story
from grader.verdict import Diagnosis

MOST_EVENTS = 400_000
MOST_CHARACTERS = 2**27  # of all messages and writes of one run, which are kept for its picture
MOST_KEPT = 2**11  # characters of a message whose text is kept, for those who look for something in it
LATER = 0.01  # seconds after which a slow timer is looked at again


@dataclass(frozen=True)
class Member:
    """One node of a cluster: its class, its peers (the other nodes, unless told), what is set on it, and its clock."""

    name: str
    kind: str
    peers: tuple[str, ...] = ()
    settings: dict[str, Any] = field(default_factory=dict)
    offset: float = 0.0  # of its clock, in seconds
    rate: float = 1.0


def cluster(size: int, kind: str, settings: dict[str, Any] | None = None, first: int = 1) -> tuple[Member, ...]:
    """`size` equal nodes n1, n2, ..., each with all others as peers."""
    return tuple(Member(f"n{number}", kind, (), dict(settings or {})) for number in range(first, first + size))


class _Place:
    """Where a node lives, life after life."""

    def __init__(self, member: Member) -> None:
        self.member = member
        self.up = False
        self.lives = 0
        self.disk: dict[str, str] = {}
        self.timers: dict[str, int] = {}  # by name, the number of the event that will set it off
        self.paused = False
        self.deferred: list[tuple[Any, ...]] = []
        self.state: dict[str, Any] = {}
        self.done = 0  # sends and writes, in all lives
        self.crash_after: int | None = None  # how many of them
        self.down_since = 0.0

    def local(self, time: float) -> float:
        return self.member.offset + self.member.rate * time


class Simulation:
    """One run. Clients and faults are scheduled by `at`; then `run`. `story` is what happened, for pictures.

    `route` may decide the fate of each message between nodes instead of the network: it returns the delays of its
    copies, or None to leave it to the network. `whom` may say which node is meant by what a client calls it ("leader").
    """

    def __init__(
        self, actors: Actors, members: Sequence[Member], seed: int = 0, network: Network | None = None,
        file: str = "", start: bool = True,
    ) -> None:  # fmt: skip
        self.actors, self.seed, self.file = actors, seed, file
        self.network = network or Network()
        self.places = {member.name: _Place(member) for member in members}
        self.names = tuple(self.places)
        self.rng = random.Random(f"network {seed}")
        self.time = 0.0
        self.story = Story(self.names)
        self.route: Callable[[Sent], list[float] | None] = lambda message: None
        self.whom: Callable[[str], str] = lambda node: node
        self.slow: frozenset[str] = frozenset()  # nodes whose timers do not go off for now
        self.on_step: list[Callable[[str, Step], None]] = []  # called after each step of a node, and what it did
        self.on_write: list[Callable[[str], None]] = []  # called with the node, right after each write to its disk
        self.clients: dict[str, Callable[[Sent], None]] = {}
        self.answers: list[Sent] = []  # messages that reached clients
        self._cuts: list[tuple[Links, Fault]] = []
        self.most_events = MOST_EVENTS
        self._characters = 0
        self._late: set[int] = set()  # numbers of messages that no cut stops
        self._queue: list[tuple[float, int, str, Any]] = []
        self._texts: dict[int, str] = {}  # of messages under way, by the number of their arrival
        self._numbers = 0
        self.events = 0
        self._stop = False
        actors.forget()
        for member in members if start else ():
            self.start(member.name)

    # ---- what is scheduled

    def at(self, time: float, act: Callable[[], None]) -> None:
        """Call `act` at virtual time `time`."""
        self._push(time, "call", act)

    def _push(self, time: float, kind: str, what: Any) -> int:
        self._numbers += 1
        heapq.heappush(self._queue, (time, self._numbers, kind, what))
        return self._numbers

    def request(self, client: str, node: str, body: dict[str, Any]) -> Sent:
        """A client sends a message to a node, now."""
        return self._send(client, self.whom(node), json.dumps(body), None)

    def late(self, message: Sent, after: float) -> None:
        """Let a message between nodes arrive in `after` seconds, whatever is cut: it was under way for that long. One
        that was delivered already arrives once more."""
        if message.fate == "delivered":
            message = Sent(
                len(self.story.sent), message.src, message.dst, message.body, message.sent, message.line, copy=True
            )
            self.story.sent.append(message)
        message.fate, message.arrived = "in flight", None
        self._late.add(message.number)
        self._texts[self._push(self.time + after, "message", message)] = json.dumps(message.body)

    def client(self, name: str, hear: Callable[[Sent], None]) -> None:
        """Messages to `name` are given to `hear` when they arrive."""
        self.clients[name] = hear
        if name not in self.story.lanes:
            self.story.lanes = (*self.story.lanes, name)

    # ---- faults

    def start(self, node: str) -> None:
        """Begin a node's first life, or the next after a crash. Nothing where it is up."""
        place = self.places[node]
        if place.up:
            return
        place.up, place.paused = True, False
        place.lives += 1
        if place.lives > 1:
            self._happened("restart", node)
            self.story.faults.append(Fault("down", place.down_since, self.time, ((node,),)))
        member = place.member
        peers = member.peers or tuple(name for name in self.names if name != node)
        birth = Birth(
            member.kind, node, peers, member.settings, dict(place.disk), f"{self.seed}/{node}/{place.lives}"
        )  # fmt: skip
        self._push(self.time, "turn", (node, place.lives, ["start"], birth))

    def crash(self, node: str) -> None:
        """The node's process ends at once; only its disk is left."""
        place = self.places[node]
        if not place.up:
            return
        place.up = place.paused = False
        place.timers.clear()
        place.deferred.clear()
        place.crash_after, place.down_since = None, self.time
        self._happened("crash", node)

    def crash_after(self, node: str, effects: int) -> None:
        """Crash the node right after it sent or wrote for the so-manieth time in all its lives (1 is the first)."""
        self.places[node].crash_after = effects

    def restart(self, node: str) -> None:
        """The node is up from here on: a crash that has not come yet does not come any more."""
        self.places[node].crash_after = None
        self.start(node)

    def pause(self, node: str) -> None:
        """The node stands still; what would befall it waits until `resume`."""
        place = self.places[node]
        if place.up and not place.paused:
            place.paused, place.down_since = True, self.time
            self._happened("pause", node)

    def resume(self, node: str) -> None:
        place = self.places[node]
        if not place.paused:
            return
        place.paused = False
        self._happened("resume", node)
        self.story.faults.append(Fault("pause", place.down_since, self.time, ((node,),)))
        deferred, place.deferred = place.deferred, []
        for kind, what, text in deferred:
            number = self._push(self.time, kind, what)
            if kind == "message":
                self._texts[number] = text
            else:
                place.timers[what[2]] = number

    def cut(self, links: Links, fault: Fault) -> None:
        """Let nothing through these links until `heal`; also what is under way is lost. `fault` is for the picture."""
        self._cuts.append((links, fault))

    def partition(self, *groups: Sequence[str]) -> None:
        """Nodes of different groups cannot reach each other until `heal`. A node in none reaches all."""
        told = tuple(tuple(group) for group in groups)
        self.cut(split(told), Fault("partition", self.time, self.time, told))

    def heal(self) -> None:
        """All links work again."""
        for links, fault in self._cuts:
            pairs = tuple(sorted(links)) if fault.what != "partition" or fault.text else ()
            self.story.faults.append(Fault(fault.what, fault.since, self.time, fault.groups, fault.text, pairs))
        self._cuts.clear()

    def is_cut(self, src: str, dst: str) -> bool:
        return bool(self._cuts) and any((src, dst) in links for links, _ in self._cuts)

    def up(self) -> list[str]:
        """The nodes that are up."""
        return [name for name, place in self.places.items() if place.up]

    def state(self, node: str) -> dict[str, Any]:
        """The watched attributes of a node, after its last step."""
        return self.places[node].state

    # ---- the run

    def run(self, until: float) -> None:
        """Go on up to virtual time `until`. Raises Lost with the story so far."""
        try:
            self._stop = False
            while self._queue and self._queue[0][0] <= until and not self._stop:
                self._next(until)
            if not self._stop:
                self.time = max(self.time, until)
        except Lost as lost:
            lost.picture = self.finished()
            raise

    def stop(self) -> None:
        """Have `run` return after the event at hand."""
        self._stop = True

    def finished(self) -> Story:
        """The story up to now, as it is drawn: faults that last end here. Nothing goes on after it."""
        story = self.story
        story.end = self.time
        self.heal()
        for name, place in self.places.items():
            if place.lives and not place.up:
                story.faults.append(Fault("down", place.down_since, self.time, ((name,),)))
        self.let_go()
        return story

    def let_go(self) -> None:
        """Forget who waits for what: clients know the simulation, and all would stay until garbage is collected."""
        for waiting in (self._queue, self.clients, self.on_step, self.on_write):
            waiting.clear()
        self.route, self.whom = (lambda message: None), (lambda node: node)

    def _next(self, until: float) -> None:
        """Do what is next: an event of ours, or what several nodes do within the least delay."""
        time = self._queue[0][0]
        horizon = min(time + self.network.least, until)
        batch: list[tuple[float, Turn]] = []
        taken: set[str] = set()
        while self._queue and self._queue[0][0] <= horizon:
            at, number, kind, what = self._queue[0]
            if kind in ("call", "client"):
                if batch:
                    break
                heapq.heappop(self._queue)
                self.time = at
                self.events += 1
                what() if kind == "call" else self._arrived_at_client(what)
                return
            node = what.dst if kind == "message" else what[0]
            if node in taken:
                break
            heapq.heappop(self._queue)
            turn = self._turn(at, number, kind, what)
            if turn is not None:
                taken.add(node)
                batch.append((at, turn))
        if batch:
            self._do(batch)

    def _turn(self, at: float, number: int, kind: str, what: Any) -> Turn | None:
        """What a node is asked to do; None where it is down, stands still, or it came to nothing."""
        self.time = at
        if kind == "message":
            place = self.places[what.dst]
            if what.src != what.dst and self.is_cut(what.src, what.dst) and what.number not in self._late:
                what.fate, what.arrived = "cut", at
                return None
            if not place.up:
                what.fate, what.arrived = "lost", at
                return None
            if place.paused:
                place.deferred.append((kind, what, self._texts.pop(number)))
                return None
            what.fate, what.arrived = "delivered", at
            return Turn(what.dst, ["message", what.src, self._texts.pop(number)], place.local(at))
        node, life, *rest = what
        place = self.places[node]
        if life != place.lives or not place.up:
            return None
        if kind == "timer":
            if place.timers.get(rest[0]) != number:
                return None
            if place.paused:
                place.deferred.append((kind, what, ""))
                return None
            if node in self.slow:
                place.timers[rest[0]] = self._push(at + LATER, "timer", what)
                return None
            del place.timers[rest[0]]
            self._happened("timer", node, rest[0])
            return Turn(node, ["timer", rest[0]], place.local(at))
        self._happened("start", node)
        return Turn(node, rest[0], place.local(at), rest[1])

    def _do(self, batch: list[tuple[float, Turn]]) -> None:
        steps = self.actors.turns([turn for _, turn in batch])
        for (at, turn), step in zip(batch, steps, strict=True):
            self.time = at
            self.events += 1
            if self.events > self.most_events:
                text = f"The run was ended after {self.most_events:,} events. Check that messages and timers do not "
                text += "cause others forever."
                raise Lost(Diagnosis("timeout", text, file=self.file))
            self._carry_out(turn, step)

    def _carry_out(self, turn: Turn, step: Step) -> None:
        place = self.places[turn.node]
        for effect in step.effects:
            kind = effect[0]
            if kind == "timer":
                _, name, after, _ = effect
                after = max(0.0, after) / place.member.rate
                place.timers[name] = self._push(self.time + after, "timer", (turn.node, place.lives, name))
                continue
            if kind == "cancel":
                place.timers.pop(effect[1], None)
                continue
            self._characters += len(effect[2] or "")
            if self._characters > MOST_CHARACTERS:
                text = f"The nodes sent and wrote more than {MOST_CHARACTERS:,} characters in one run. Send less."
                raise Lost(Diagnosis("out_of_memory", text, file=self.file, line=effect[3]))
            if kind == "send":
                self._send(turn.node, effect[1], effect[2], effect[3])
            else:
                self._write(place, *effect[1:])
            place.done += 1
            if place.crash_after is not None and place.done >= place.crash_after:
                self.crash(turn.node)
                return
        if step.raised is not None:
            raise self._raised(turn, step.raised)
        if step.state != place.state:
            changed = {name: value for name, value in step.state.items() if place.state.get(name) != value}
            place.state = step.state
            text = ", ".join(f"{name} = {value}" for name, value in changed.items())
            self._happened("state", turn.node, text)
        for look in self.on_step:
            look(turn.node, step)

    def _raised(self, turn: Turn, raised: dict[str, Any]) -> Lost:
        what = "on_start" if turn.what[0] == "start" else f"on_{turn.what[0]}"
        given = ""
        if turn.what[0] == "message":
            given = f" of {turn.what[2][:120]} from {turn.what[1]}"
        elif turn.what[0] == "timer":
            given = f" of {turn.what[1]!r}"
        line = raised.get("line")
        where = f" at {self.file} line {line}" if line and self.file else ""
        self.story.events.append(Happened("raised", turn.node, self.time, raised["type"], line))
        self.story.blamed.add(len(self.story.events) - 1)
        return Lost(
            Diagnosis(
                "crash", f"{turn.node} raised {raised['type']}: {raised['text']}{where}, in {what}{given}.",
                file=self.file or None, line=line,
            )
        )  # fmt: skip

    def _write(self, place: _Place, key: str, text: str | None, line: int | None) -> None:
        if text is None:
            place.disk.pop(key, None)
        else:
            place.disk[key] = text
        told = f"{key} deleted" if text is None else f"{key} = {text[:200]}"
        self.story.events.append(Happened("write", place.member.name, self.time, told, line, self._order()))
        for look in self.on_write:
            look(place.member.name)

    def _send(self, src: str, dst: str, text: str, line: int | None) -> Sent:
        body = _known(text) if len(text) <= SHORT_TEXT and dst in self.places else json.loads(text)
        message = Sent(len(self.story.sent), src, dst, body, self.time, line, order=self._order())
        if len(text) <= MOST_KEPT and "\\" not in text:
            message.text = text
        self.story.sent.append(message)
        if dst not in self.places:
            if dst in self.clients:
                delay = self.network.delays(self.rng, False)[0]
                self._push(self.time + delay, "client", message)
            else:
                message.fate = "lost"
            return message
        between = src in self.places and src != dst
        decided = self.route(message) if between else None
        delays = self.network.delays(self.rng, between) if decided is None else decided
        if between and self.is_cut(src, dst):
            message.fate = "cut"
        elif not delays:
            message.fate = "dropped"
        else:
            self._texts[self._push(self.time + delays[0], "message", message)] = text
            for delay in delays[1:]:
                copy = Sent(len(self.story.sent), src, dst, message.body, self.time, line, copy=True)
                self.story.sent.append(copy)
                self._texts[self._push(self.time + delay, "message", copy)] = text
        return message

    def _arrived_at_client(self, message: Sent) -> None:
        message.fate, message.arrived = "delivered", self.time
        self.answers.append(message)
        self.clients[message.dst](message)

    def _happened(self, what: Any, node: str, text: str = "") -> None:
        order = self._order() if what == "crash" else 0
        self.story.events.append(Happened(what, node, self.time, text, order=order))

    def _order(self) -> int:
        """Tells what one node does in one moment apart: it grows with all that happens."""
        return len(self.story.sent) + len(self.story.events) + 1


_known: Callable[[str], dict[str, Any]] = lru_cache(maxsize=4096)(json.loads)  # of messages that nobody changes


def messages_between(story: Story, nodes: Iterable[str]) -> list[Sent]:
    """The messages that nodes sent to each other, not to themselves."""
    names = set(nodes)
    return [sent for sent in story.sent if sent.src in names and sent.dst in names and sent.src != sent.dst]
