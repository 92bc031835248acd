"""A small cluster whose reader decides what happens next: which message arrives or is lost, whose timer goes off, who
crashes, who is cut off. A state never changes, so any of them can be gone back to.

What nodes do comes from `grader.nodes.locals`: their handlers run here, each state's once.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from grader.lost import Lost
from grader.nodes.actors import Diverged
from grader.nodes.actors import Local as Actors
from grader.nodes.life import Birth, Life, Step
from grader.nodes.locals import Locals, Move
from grader.nodes.node import PROVIDED, Node
from grader.nodes.sim import Member

Action = tuple[str, ...]  # ("deliver" or "drop", src, dst, text), ("ask", client), ("timer", "crash", ... , node)
Message = tuple[str, str, str]  # from whom, to whom, its JSON text
Judge = Callable[[dict[str, dict[str, Any]]], str | None]  # attributes of each node by name: what is wrong
Asking = Mapping[str, Sequence[tuple[str, dict[str, Any]]]]  # what each client asks, in order: (node, body)
MOST_TEXT = 160  # characters of one attribute


class Impossible(Exception):  # noqa: N818 - reads as what happened
    """This cannot happen in this state, or a handler raised. The message is one sentence."""


@dataclass(frozen=True)
class State:
    """Numbers of the nodes' states, who is down and who is cut off, messages that are under way, and of each client
    how much it has asked and what it was answered."""

    nodes: tuple[int, ...]
    down: tuple[bool, ...]
    cut: tuple[bool, ...]
    messages: tuple[Message, ...]  # sorted
    asked: tuple[int, ...]
    heard: tuple[tuple[str, str], ...]


class Stepper:
    """What can happen to some nodes, and what comes of it."""

    def __init__(self, kinds: Mapping[str, type[Node]], members: Sequence[Member], asks: Asking | None = None) -> None:
        self.names = tuple(member.name for member in members)
        self.asks = {
            client: [(node, json.dumps({**body, "msg_id": number})) for number, (node, body) in enumerate(wanted, 1)]
            for client, wanted in (asks or {}).items()
        }
        self.locals = Locals(_Open(kinds), members)

    def begin(self) -> State:
        """All nodes have started."""
        none = (False,) * len(self.names)
        state = State((0,) * len(self.names), none, none, (), (0,) * len(self.asks), ())
        for node in range(len(self.names)):
            state = self._moved(state, node, self._tried(lambda node=node: self.locals.begin(node)))
        return state

    def actions(self, state: State) -> list[Action]:
        """Everything that can happen: the script lists it in the same order."""
        found: list[Action] = []
        for message in dict.fromkeys(state.messages):
            if self._arrives(state, message):
                found.append(("deliver", *message))
            found.append(("drop", *message))
        for node, name in enumerate(self.names):
            if not state.down[node] and self.locals.known[state.nodes[node]].timers:
                found.append(("timer", name))
            found.append(("restart" if state.down[node] else "crash", name))
            found.append(("heal" if state.cut[node] else "cut", name))
        found += [("ask", client) for k, client in enumerate(self.asks) if state.asked[k] < len(self.asks[client])]
        return found

    def after(self, state: State, action: Action) -> State:
        """What comes of it. Raises Impossible."""
        if action not in self.actions(state):
            raise Impossible(f"{' '.join(action)} cannot happen here.")
        kind, who = action[0], action[1]
        if kind in ("deliver", "drop"):
            left = list(state.messages)
            left.remove((action[1], action[2], action[3]))
            state = replace(state, messages=tuple(left))
            if kind == "drop":
                return state
            node = self.names.index(action[2])
            return self._moved(state, node, self._tried(self.locals.message, state.nodes[node], who, action[3]))
        if kind == "ask":
            client = list(self.asks).index(who)
            asked, (target, text) = state.asked[client], self.asks[who][state.asked[client]]
            messages = tuple(sorted((*state.messages, (who, target, text))))
            return replace(state, messages=messages, asked=_with(state.asked, client, asked + 1))
        node = self.names.index(who)
        if kind == "timer":
            return self._moved(state, node, self._tried(self.locals.timer, state.nodes[node]))
        if kind in ("cut", "heal"):
            return replace(state, cut=_with(state.cut, node, kind == "cut"))
        state = replace(state, down=_with(state.down, node, kind == "crash"))
        if kind == "crash":
            return state
        return self._moved(state, node, self._tried(self.locals.crash, state.nodes[node]))

    def named(self, line: str) -> list[Action]:
        """Actions in short: "client; coord>A; A>coord vote; drop coord>B; timer B; crash coord", in a row from the
        beginning. "A>B type" is the first message from A to B, of that type if it is told. Raises Impossible."""
        state, found = self.begin(), list[Action]()
        for words in filter(None, (part.strip() for part in line.split(";"))):
            action = next((each for each in self.actions(state) if _means(words, each)), None)
            if action is None:
                raise Impossible(f"After {len(found)} steps there is no {words!r}.")
            found.append(action)
            state = self.after(state, action)
        return found

    def _arrives(self, state: State, message: Message) -> bool:
        """Whether the receiver is up, and reached."""
        src, dst = (self.names.index(who) if who in self.names else None for who in message[:2])
        apart = src is not None and dst is not None and src != dst and (state.cut[src] or state.cut[dst])
        return dst is not None and not state.down[dst] and not apart

    def _moved(self, state: State, node: int, move: Move) -> State:
        """The node is in another state; its answers are heard at once, its messages are under way."""
        sent = [(self.names[node], dst, text) for dst, text, _ in move.sent]
        return replace(
            state,
            nodes=_with(state.nodes, node, move.after),
            messages=tuple(sorted([*state.messages, *(one for one in sent if one[1] in self.names)])),
            heard=(*state.heard, *((dst, text) for _, dst, text in sent if dst in self.asks)),
        )

    def _tried(self, what: Callable[..., Move], *given: Any) -> Move:
        try:
            return what(*given)
        except Lost as lost:
            line = f" (line {lost.diagnosis.line})" if lost.diagnosis.line else ""
            raise Impossible(f"{lost.diagnosis.message}{line}") from None
        except Diverged as diverged:
            raise Impossible(f"{diverged.name} did something else when it was given the same again.") from None

    # ---- as JSON, for the script

    def view(self, state: State, node: int) -> dict[str, Any]:
        """A node's attributes, what is on its disk, and its timers, the next one first."""
        here = self.locals.known[state.nodes[node]]
        timers = [f"{name}, in {max(0.0, due - here.clock):.3g} s" for due, name in here.timers]
        disk = {key: _short(json.loads(text)) for key, text in here.disk}
        return {"vars": here.state, "disk": disk, "timers": timers}

    def wrong(self, state: State, judge: Judge | None) -> str:
        """What `judge` says of the nodes' attributes: of what a crashed one had, too."""
        attributes = {name: self.locals.known[state.nodes[node]].state for node, name in enumerate(self.names)}
        return (judge(attributes) or "") if judge else ""

    def record(self, states: Sequence[State], judge: Judge | None = None, targets: bool = False) -> dict[str, Any]:
        """States as plain values in which nothing is told twice; with `targets` also which of them each action leads
        to (-1: none of them)."""
        views: dict[str, int] = {}
        messages: dict[Message, int] = {}
        numbers = {state: number for number, state in enumerate(states)}
        frames = []
        for state in states:
            seen = [json.dumps(self.view(state, node)) for node in range(len(self.names))]
            under_way = Counter(state.messages).items()
            frames.append({
                "nodes": [views.setdefault(text, len(views)) for text in seen],
                "down": [int(each) for each in state.down],
                "cut": [int(each) for each in state.cut],
                "messages": [[messages.setdefault(one, len(messages)), count] for one, count in under_way],
                "asked": state.asked,
                "heard": state.heard,
                "wrong": self.wrong(state, judge),
                "to": self._targets(state, numbers) if targets else None,
            })  # fmt: skip
        return {"views": [json.loads(text) for text in views], "messages": list(messages), "frames": frames}

    def _targets(self, state: State, numbers: Mapping[State, int]) -> list[int]:
        after = [self._or_none(state, action) for action in self.actions(state)]
        return [-1 if one is None else numbers.get(one, -1) for one in after]

    def _or_none(self, state: State, action: Action) -> State | None:
        try:
            return self.after(state, action)
        except Impossible:
            return None

    def around(self, lines: Sequence[Sequence[Action]], most: int) -> list[State]:
        """The states of lines from the beginning, and those near them, `most` in all: what fewest other actions lead
        to. Messages are lost, and nodes cut off, on the lines only."""
        known = {self.begin(): True}
        for line in lines:
            state = self.begin()
            for action in line:
                state = self.after(state, action)
                known[state] = True
        for state in (queue := list(known)):
            for action in self.actions(state):
                if known[state] or action[0] not in ("drop", "cut"):
                    after = self._or_none(state, action)
                    if after is not None and after not in known:
                        if len(known) >= most:
                            return list(known)
                        known[after] = False
                        queue.append(after)
        return list(known)


def _means(words: str, action: Action) -> bool:
    if action[0] in ("deliver", "drop"):
        kind = json.loads(action[3])["type"]
        short = f"{'drop ' if action[0] == 'drop' else ''}{action[1]}>{action[2]}"
        return words in (short, f"{short} {kind}")
    return words == (action[1] if action[0] == "ask" else " ".join(action))


def _with(values: tuple[Any, ...], at: int, value: Any) -> tuple[Any, ...]:
    return (*values[:at], value, *values[at + 1 :])


class _Open(Actors):
    """Nodes in this process, of which all attributes are told."""

    def _born(self, birth: Birth) -> Life:
        return _OpenLife(self._classes[birth.kind], birth, hidden=frozenset(birth.settings) | PROVIDED)


class _OpenLife(Life):
    def __init__(self, make: type[Node], birth: Birth, hidden: frozenset[str]) -> None:
        super().__init__(make, birth)
        self._hidden = hidden

    def step(self, what: list[Any], now: float) -> Step:
        done = super().step(what, now)
        told = {name: value for name, value in vars(self.node).items() if name not in self._hidden and name[0] != "_"}
        return replace(done, state={name: _short(value) for name, value in told.items()})


def _short(value: Any) -> Any:
    """A value as it is, if JSON has it and it is no container; otherwise as text, cut if it is long."""
    if value is None or type(value) in (bool, int, float, str):
        return value
    text = _text(value)
    return text if len(text) <= MOST_TEXT else f"{text[: MOST_TEXT - 1]}…"


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_text(key)}: {_text(each)}" for key, each in value.items()) + "}"
    if isinstance(value, (set, frozenset)):
        return "{" + ", ".join(sorted(map(_text, value))) + "}" if value else "{}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_text, value)) + "]"
    return value if isinstance(value, str) else repr(value)
