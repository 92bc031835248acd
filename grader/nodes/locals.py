"""The states that single nodes can be in, and what each input makes of them: worked out once, looked up ever after.

A node's state depends on nothing but what it was given. So however many states a whole cluster has, each of its nodes
has few, and only those are ever run. A crash is followed at once by the next start: how long a node is down shows only
in which messages reach it, and those may be late as long as they like.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from grader.lost import Lost
from grader.nodes.actors import Actors
from grader.nodes.life import Birth, Step
from grader.nodes.sim import Member
from grader.verdict import Diagnosis

COMPARED = 2  # of so many states with several pasts, one is lived on from two of them
MOST_ODD = 3  # which of two peers a set names first may differ where the sets are equal


@dataclass(frozen=True)
class Local:
    """One state of a node: the past that leads there, what is on disk, timers as (deadline, name) by its clock."""

    number: int
    member: int
    birth: Birth
    past: int
    clock: float
    timers: tuple[tuple[float, str], ...]
    disk: tuple[tuple[str, str], ...]
    state: dict[str, Any] = field(compare=False, default_factory=dict)


@dataclass(frozen=True)
class Move:
    """What an input makes of a node: its next state, and what it sent on the way, as (dst, text, line).

    Where it `crashed`, after so many sends and writes of `effects`, `again` is what it did when it started anew.
    """

    after: int
    sent: tuple[tuple[str, str, int | None], ...]
    effects: tuple[list[Any], ...]
    crashed: int | None = None
    again: tuple[list[Any], ...] = ()


class Locals:
    """All states of all nodes that were met. Raises Lost where a handler raises or does not do the same again."""

    def __init__(self, actors: Actors, members: Sequence[Member], file: str = "") -> None:
        self.actors, self.members, self.file = actors, tuple(members), file
        self.known: list[Local] = []
        self._numbers: dict[tuple[Any, ...], int] = {}
        self._moves: dict[tuple[Any, ...], Move] = {}
        self.runs = 0  # handlers that were really run
        self._others: dict[int, int] = {}  # of some states, another past that is said to lead to the same one
        self._odd = 0  # how often two such pasts did not do the same
        self._rng = random.Random("compared")  # which are looked at
        actors.forget()

    def begin(self, member: int) -> Move:
        """The node's first start."""
        return self._start(member, 1, {}, 0.0)

    def message(self, local: int, src: str, text: str) -> Move:
        return self._move(local, ["message", src, text])

    def timer(self, local: int) -> Move:
        """The next of its timers goes off."""
        return self._move(local, ["timer", self.known[local].timers[0][1]])

    def crash(self, local: int) -> Move:
        """It crashes while it does nothing, and starts again."""
        here = self.known[local]
        started = self._start(here.member, _life(here.birth) + 1, dict(here.disk), here.clock)
        return Move(started.after, started.sent, (), 0, started.effects)

    def crashes(self, local: int, kind: str, src: str = "", text: str = "") -> list[Move]:
        """It gets an input and crashes after each of the things that it sends or writes; and starts again."""
        here = self.known[local]
        what = ["message", src, text] if kind == "message" else ["timer", here.timers[0][1]]
        return list(self._cut(here, self._move(local, what)))

    def answer(self, local: int, body: dict[str, Any], asker: str = "probe") -> dict[str, Any] | None:
        """What the node would answer to a request, which does not change it: it is asked on a branch of its own."""
        move = self.message(local, asker, json.dumps({**body, "msg_id": 1}))
        for dst, text, _ in move.sent:
            if dst == asker:
                told: dict[str, Any] = json.loads(text)
                return told
        return None

    def _cut(self, here: Local, whole: Move) -> Iterator[Move]:
        disk, done = dict(here.disk), 0
        sent: list[tuple[str, str, int | None]] = []
        for effect in whole.effects:
            if effect[0] == "send":
                sent.append((effect[1], effect[2], effect[3]))
            elif effect[0] == "write":
                _write(disk, effect[1], effect[2])
            else:
                continue
            done += 1
            again = self._start(here.member, _life(here.birth) + 1, dict(disk), here.clock)
            yield Move(again.after, (*sent, *again.sent), whole.effects, done, again.effects)

    def _move(self, local: int, what: list[Any]) -> Move:
        key = (local, *what)
        found = self._moves.get(key)
        if found is None:
            here = self.known[local]
            timers, clock = list(here.timers), here.clock
            if what[0] == "timer":
                clock = max(clock, timers.pop(0)[0])
            found = self._moves[key] = self._run(here.member, here.birth, here.past, what, clock, timers, here.disk)
            other = self._others.get(local)
            if other is not None:
                self._compare(here.birth, other, what, clock, found)
        return found

    def _compare(self, birth: Birth, past: int, what: list[Any], clock: float, first: Move) -> None:
        """Hold the box to its word that two pasts lead to one state: from there the same input must do the same. Told
        by the learner's process, it could make every state look like one, and a search would end at once."""
        step = self.actors.branch(birth, past, what, clock).step
        self.runs += 1
        if step.raised is None and _meant(step.effects) == _meant(first.effects):
            return
        self._odd += 1
        if self._odd < MOST_ODD:
            return
        raise Lost(
            Diagnosis(
                "nondeterministic",
                f"{birth.name} was in the same state twice, as far as its attributes tell, but reacted differently to "
                f"the same {what[0]}. Keep all that a node knows in attributes of self.",
                file=self.file or None,
            )
        )

    def _start(self, member: int, life: int, disk: dict[str, str], clock: float) -> Move:
        one = self.members[member]
        peers = one.peers or tuple(other.name for other in self.members if other.name != one.name)
        key = ("start", member, life, tuple(sorted(disk.items())), clock)
        found = self._moves.get(key)
        if found is None:
            birth = Birth(one.kind, one.name, peers, one.settings, disk, f"explored/{one.name}/{life}")
            found = self._moves[key] = self._run(member, birth, -1, ["start"], clock, [], tuple(sorted(disk.items())))
        return found

    def _run(
        self, member: int, birth: Birth, past: int, what: list[Any], clock: float, timers: list[tuple[float, str]],
        disk: tuple[tuple[str, str], ...],
    ) -> Move:  # fmt: skip
        branch = self.actors.branch(birth, past, what, clock)
        self.runs += 1
        step = branch.step
        if step.raised is not None:
            raise self._raised(birth.name, what, step)
        texts, sent = dict(disk), []
        for effect in step.effects:
            if effect[0] == "send":
                sent.append((effect[1], effect[2], effect[3]))
            elif effect[0] == "write":
                _write(texts, effect[1], effect[2])
            elif effect[0] == "timer":
                timers = [timer for timer in timers if timer[1] != effect[1]] + [(clock + effect[2], effect[1])]
            else:
                timers = [timer for timer in timers if timer[1] != effect[1]]
        timers.sort(key=lambda timer: timer[0])  # those for the same moment go off as they were set
        held = tuple(sorted(texts.items()))
        relative = tuple((round(deadline - clock, 9), name) for deadline, name in timers)
        key = (member, birth.seed, branch.state, relative, held)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.known)
            self.known.append(Local(number, member, birth, branch.past, clock, tuple(timers), held, step.state))
        elif (
            branch.past != self.known[number].past and number not in self._others and not self._rng.randrange(COMPARED)
        ):
            self._others[number] = branch.past
        return Move(number, tuple(sent), tuple(step.effects))

    def _raised(self, name: str, what: list[Any], step: Step) -> Lost:
        assert step.raised is not None
        told, line = step.raised, step.raised["line"]
        given = {"message": "on_message", "timer": "on_timer", "start": "on_start"}[what[0]]
        more = f" of {what[2][:120]} from {what[1]}" if what[0] == "message" else ""
        text = f"{name} raised {told['type']}: {told['text']}, in {given}{more}."
        return Lost(Diagnosis("crash", text, file=self.file or None, line=line))


def _meant(effects: Sequence[list[Any]]) -> list[str]:
    """What was done, whatever the order: that of a set may differ where the sets are equal."""
    return sorted(
        json.dumps([effect[0], effect[1], _sorted(json.loads(effect[2])) if _has_text(effect) else effect[2:-1]])
        for effect in effects
    )


def _has_text(effect: list[Any]) -> bool:
    return effect[0] in ("send", "write") and effect[2] is not None


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return sorted(map(_sorted, value), key=repr) if isinstance(value, list) else value


def _life(birth: Birth) -> int:
    return int(birth.seed.rpartition("/")[2])


def _write(disk: dict[str, str], key: str, text: str | None) -> None:
    if text is None:
        disk.pop(key, None)
    else:
        disk[key] = text
