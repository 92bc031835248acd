"""The states of a small cluster, and what can befall each: deliveries, timers, requests, duplicates and crashes, within
bounds.

States are the same where nodes, messages under way, histories and what may still befall are, whichever way led there.
A message that is lost needs no step of its own: it is one that is never delivered. What nodes do comes from `locals`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from grader.nodes.actors import Actors
from grader.nodes.clients import Ask
from grader.nodes.locals import Locals, Move
from grader.nodes.sim import Member

SETTLE_SECONDS = 5.0
MOST_SETTLING = 2000  # steps

TIMER, CRASH = -1, -2  # what befalls a node, where that is no message's number
State = tuple[Any, ...]  # the local states' numbers, messages as bits, the history's number, (timers, crashes, copies)
Action = tuple[Any, ...]  # ("deliver", message, crash, keep), ("timer", node, crash), ("crash", node), ("ask", client)
Compact = tuple[int, int, tuple[int, ...], tuple[tuple[str, str], ...]]  # see States._compact


@dataclass(frozen=True)
class Model:
    """A cluster and its bounds: what each client asks, one after another; how often timers go off, nodes crash and
    messages between nodes are delivered twice in one run; which nodes may crash (all, unless told)."""

    members: tuple[Member, ...]
    asks: Mapping[str, tuple[Ask, ...]]
    timers: int = 0
    crashes: int = 0
    copies: int = 0
    crashable: tuple[str, ...] = ()
    label: str = ""


@dataclass(frozen=True)
class View:
    """What a property is judged by: the history up to now, and each node as it is.

    `history` has an entry (client, number, None) for each request and (client, number, answer) for each answer, in
    order; an answer that fits no open request has number -1. `seen` is what `observe` made of each node.
    """

    history: tuple[tuple[str, int, Any], ...]
    seen: dict[str, Any]


Property = Callable[[View], Any]


@dataclass
class _Histories:
    """Histories that share their beginnings."""

    entries: list[tuple[int, tuple[str, int, Any]]] = field(default_factory=list)
    numbers: dict[tuple[Any, ...], int] = field(default_factory=dict)

    def extend(self, history: int, entry: tuple[str, int, Any], key: Any) -> int:
        number = self.numbers.get((history, key))
        if number is None:
            number = self.numbers[history, key] = len(self.entries)
            self.entries.append((history, entry))
        return number

    def of(self, history: int) -> tuple[tuple[str, int, Any], ...]:
        found = []
        while history >= 0:
            history, entry = self.entries[history]
            found.append(entry)
        return tuple(reversed(found))


class States:
    """What one model can come to. `judge` says what is wrong with a state, None where nothing is; it is asked once for
    what looks the same. `observe` makes of a node what `judge` may see of it: given `locals` and a local state's
    number. `settled` says what is wrong with what becomes of a state where nothing befalls nodes any more."""

    def __init__(
        self, actors: Actors, model: Model, judge: Property, observe: Callable[[Locals, int], Any] | None = None,
        file: str = "", settled: Property | None = None,
    ) -> None:  # fmt: skip
        self.model, self.judge, self._observe, self._settled = model, judge, observe, settled
        self.locals = Locals(actors, model.members, file)
        self.names = tuple(member.name for member in model.members)
        self.clients = tuple(model.asks)
        self._index = {name: number for number, name in enumerate(self.names)}
        self._messages: list[tuple[int, str, str, int]] = []  # to which node, from whom, its text, which copy of it
        self._bits: dict[tuple[int, str, str, int], int] = {}
        self.histories = _Histories()
        self._open: dict[int, dict[str, tuple[int, bool]]] = {-1: dict.fromkeys(self.clients, (0, False))}
        self._moves: dict[tuple[int, int], Compact] = {}
        self._cut_moves: dict[tuple[int, int], list[tuple[int, int, int, tuple[int, ...], tuple[Any, ...]]]] = {}
        self._seen: dict[int, Any] = {}
        self._judged: dict[tuple[Any, ...], Any] = {}
        self._settled_states: dict[tuple[Any, ...], State] = {}
        may = model.crashable or self.names
        self._crashable = tuple(name in may for name in self.names)

    # ---- states

    def begin(self) -> State:
        """The state in which every node has started."""
        state: State = (*(0 for _ in self.names), 0, -1, (self.model.timers, self.model.crashes, self.model.copies))
        for node in range(len(self.names)):
            move = self.locals.begin(node)
            state = self._after(state, node, self._compact(node, move), 0, state[-1])
        return state

    def view(self, state: State) -> View:
        """What a property sees of a state."""
        seen = {name: self._seen_of(state[node]) for node, name in enumerate(self.names)}
        return View(self.histories.of(state[-2]), seen)

    def _seen_of(self, local: int) -> Any:
        found = self._seen.get(local, self)
        if found is self:
            found = self._seen[local] = self._observe(self.locals, local) if self._observe else None
        return found

    def problem(self, state: State) -> Any:
        """What is wrong with a state; None if nothing is."""
        nodes = len(self.names)
        key = (state[-2], tuple([self._seen_of(local) for local in state[:nodes]]) if self._observe else None)
        found = self._judged.get(key, self)
        if found is self:
            found = self._judged[key] = self.judge(self.view(state))
        if found or self._settled is None:
            return found
        after = self.settle(state)
        seen = tuple([self._seen_of(local) for local in after[:nodes]]) if self._observe else None
        found = self._judged.get(("settled", after[-2], seen), self)
        if found is self:
            found = self._judged["settled", after[-2], seen] = self._settled(self.view(after))
        return found

    def settle(self, state: State, seconds: float = SETTLE_SECONDS) -> State:
        """What becomes of a state without further faults: every message arrives, every client asks what it has left to
        ask, and timers go off as long as by their node's clock no more than so many seconds have passed."""
        state = self._drained(state)  # many states are the same from here on
        key = (*state[:-1], seconds)
        found = self._settled_states.get(key)
        if found is None:
            found = self._settled_states[key] = self._timers_out(state, seconds)
        return found

    def _drained(self, state: State) -> State:
        """What becomes of a state when every message arrives, and every client asks what it can."""
        nodes = len(self.names)
        for _ in range(MOST_SETTLING):
            mask = state[nodes]
            if mask:
                low = mask & -mask
                message = low.bit_length() - 1
                node = self._messages[message][0]
                move = self._move(state[node], node, message)
                state = self._after(state, node, move, low, state[-1])
            elif client := self._next_to_ask(state):
                state = self._asked(state, client)
            else:
                break
        return state

    def _timers_out(self, state: State, seconds: float) -> State:
        """The rest of `settle`, where no message is under way. Each node's time is kept here: a node whose timer only
        sets itself again is in the same state as before, and its clock says nothing of how long that went on."""
        nodes = len(self.names)
        passed = [0.0] * nodes
        for _ in range(MOST_SETTLING):
            due = []
            for node in range(nodes):
                here = self.locals.known[state[node]]
                if here.timers:
                    due.append((passed[node] + max(0.0, here.timers[0][0] - here.clock), node))
            if not due or min(due)[0] > seconds:
                break
            passed[min(due)[1]], node = min(due)
            state = self._drained(self._after(state, node, self._move(state[node], node, TIMER), 0, state[-1]))
        return state

    def _next_to_ask(self, state: State) -> str:
        """A client that can ask something; "" if there is none."""
        for client, (count, waiting) in self._open[state[-2]].items():
            if not waiting and count < len(self.model.asks[client]):
                return client
        return ""

    def _bit(self, node: int, src: str, text: str, mask: int) -> int:
        """The bit of a message to `node` that is not among `mask` already."""
        copy = 0
        while True:
            key = (node, src, text, copy)
            bit = self._bits.get(key)
            if bit is None:
                bit = self._bits[key] = 1 << len(self._messages)
                self._messages.append(key)
            if not mask & bit:
                return bit
            copy += 1

    def _compact(self, node: int, move: Move) -> Compact:
        """A move as (local state after, messages as bits, those whose bits were met twice, answers to clients)."""
        mask, src = 0, self.names[node]
        answers = []
        for dst, text, _ in move.sent:
            if dst in self._index:
                mask |= self._bit(self._index[dst], src, text, mask)
            elif dst in self.model.asks:
                answers.append((dst, text))
        bits = []
        rest = mask
        while rest:
            low = rest & -rest
            bits.append(low)
            rest ^= low
        return move.after, mask, tuple(bits), tuple(answers)

    def _after(self, state: State, node: int, move: Compact, taken: int, budget: Any) -> State:
        """The state after a node's move, in which the messages `taken` were delivered."""
        after, sent, bits, answers = move
        nodes = len(self.names)
        mask = state[nodes] & ~taken
        if mask & sent:
            for bit in bits:
                if mask & bit:
                    to, src, text, _ = self._messages[bit.bit_length() - 1]
                    bit = self._bit(to, src, text, mask)
                mask |= bit
        else:
            mask |= sent
        history = state[nodes + 1]
        for client, text in answers:
            history = self._answered(history, client, text)
        return (*state[:node], after, *state[node + 1 : nodes], mask, history, budget)

    def asked_of(self, state: State, client: str) -> tuple[int, bool]:
        """How many requests a client has made, and whether it still waits for an answer."""
        return self._open[state[-2]][client]

    def message(self, number: int) -> tuple[int, str, str]:
        """To which node a message goes, who sent it, and its text."""
        return self._messages[number][:3]

    def _answered(self, history: int, client: str, text: str) -> int:
        count, waiting = self._open[history][client]
        body = json.loads(text)
        fits = waiting and body.get("in_reply_to") == count
        entry = (client, count - 1 if fits else -1, body)
        number = self.histories.extend(history, entry, (client, entry[1], text))
        if number not in self._open:
            self._open[number] = {**self._open[history], client: (count, waiting and not fits)}
        return number

    def _asked(self, state: State, client: str) -> State:
        nodes = len(self.names)
        count, _ = self._open[state[nodes + 1]][client]
        ask = self.model.asks[client][count]
        history = self.histories.extend(state[nodes + 1], (client, count, None), (client, count))
        if history not in self._open:
            self._open[history] = {**self._open[state[nodes + 1]], client: (count + 1, True)}
        text = json.dumps({**ask.body, "msg_id": count + 1})
        bit = self._bit(self._index[ask.node], client, text, state[nodes])
        return (*state[:nodes], state[nodes] | bit, history, state[-1])

    # ---- what can happen next

    def _move(self, local: int, node: int, what: int) -> Compact:
        """What becomes of a node that gets a message, whose timer goes off, or that crashes."""
        found = self._moves.get((local, what))
        if found is None:
            if what == TIMER:
                move = self.locals.timer(local)
            elif what == CRASH:
                move = self.locals.crash(local)
            else:
                _, src, text, _ = self._messages[what]
                move = self.locals.message(local, src, text)
            found = self._moves[local, what] = self._compact(node, move)
        return found

    def _cuts(self, local: int, node: int, message: int) -> Any:
        """The same with a crash after each thing that it does; `message` may be TIMER."""
        if message == TIMER:
            moves = self.locals.crashes(local, "timer")
        else:
            _, src, text, _ = self._messages[message]
            moves = self.locals.crashes(local, "message", src, text)
        found = self._cut_moves[local, message] = [(m.crashed or 0, *self._compact(node, m)) for m in moves]
        return found

    def next(self, state: State) -> Iterator[tuple[Action, State]]:
        """Every action that is possible, and the state that it leads to."""
        nodes = len(self.names)
        mask, history, budget = state[nodes], state[nodes + 1], state[nodes + 2]
        timers, crashes, copies = budget
        moves, messages = self._moves, self._messages
        for client, (count, waiting) in self._open[history].items():
            if not waiting and count < len(self.model.asks[client]):
                yield ("ask", client), self._asked(state, client)
        rest = mask
        while rest:
            low = rest & -rest
            rest ^= low
            message = low.bit_length() - 1
            node = messages[message][0]
            local = state[node]
            move = moves.get((local, message)) or self._move(local, node, message)
            after, sent, _, answers = move
            idle = after == local and not sent and not answers
            if idle:
                pass  # it changes nothing, now; it may as well never arrive, or later
            elif answers or mask & sent:
                yield ("deliver", message, None, False), self._after(state, node, move, low, budget)
            else:
                new = (mask ^ low) | sent
                yield (
                    ("deliver", message, None, False),
                    (*state[:node], after, *state[node + 1 : nodes], new, history, budget),
                )
            if copies and not idle and messages[message][1] in self._index:  # clients send each request once
                less = (timers, crashes, copies - 1)
                yield ("deliver", message, None, True), self._after(state, node, move, 0, less)
            if crashes and self._crashable[node]:
                less = (timers, crashes - 1, copies)
                for crash, *cut in self._cut_moves.get((local, message)) or self._cuts(local, node, message):
                    yield ("deliver", message, crash, False), self._after(state, node, tuple(cut), low, less)
        if timers or crashes:
            yield from self._by_themselves(state)

    def _by_themselves(self, state: State) -> Iterator[tuple[Action, State]]:
        """Timers that go off, and crashes of nodes that do nothing."""
        timers, crashes, copies = state[-1]
        for node in range(len(self.names)):
            local = state[node]
            if timers and self.locals.known[local].timers:
                less = (timers - 1, crashes, copies)
                yield ("timer", node, None), self._after(state, node, self._move(local, node, TIMER), 0, less)
                if crashes and self._crashable[node]:
                    fewer = (timers - 1, crashes - 1, copies)
                    for crash, *cut in self._cut_moves.get((local, TIMER)) or self._cuts(local, node, TIMER):
                        yield ("timer", node, crash), self._after(state, node, tuple(cut), 0, fewer)
            if crashes and self._crashable[node]:
                move = self._move(local, node, CRASH)
                yield ("crash", node), self._after(state, node, move, 0, (timers, crashes - 1, copies))
