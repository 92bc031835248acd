"""A schedule that the explorer found, as a story to draw: one step after another, each as far from the next."""

from __future__ import annotations

import json
from collections import defaultdict, deque
from collections.abc import Sequence
from typing import Any

from grader.nodes.explorer import Explorer
from grader.nodes.locals import Move
from grader.nodes.states import Action, State
from grader.trace.story import Happened, Sent, Story


def story(explorer: Explorer, actions: Sequence[Action]) -> Story:
    """What happens in these steps, from the start of all nodes on."""
    return _Teller(explorer).tell(actions)


class _Teller:
    def __init__(self, explorer: Explorer) -> None:
        self.explorer = explorer
        self.story = Story((*explorer.names, *explorer.clients), "step")
        self._done = 0
        self._under_way: dict[tuple[str, str, str], deque[Sent]] = defaultdict(deque)

    def tell(self, actions: Sequence[Action]) -> Story:
        explorer, here = self.explorer, self.explorer.begin()
        for node, name in enumerate(explorer.names):
            self._did(name, explorer.locals.begin(node), 0.0)
        for number, action in enumerate(actions, 1):
            after = next((after for possible, after in explorer.next(here) if possible == action), None)
            if after is None:
                break
            self._step(action, here, float(number))
            here = after
        self.story.end = float(len(actions) + 1)
        return self.story

    def _step(self, action: Action, here: State, at: float) -> None:
        explorer = self.explorer
        match action:
            case ("ask", client):
                count, _ = explorer.asked_of(here, client)
                ask = explorer.model.asks[client][count]
                self._send(client, ask.node, json.dumps({**ask.body, "msg_id": count + 1}), None, at)
                self._history("invoke", client, ask.body, at)
            case ("deliver", message, crash, keep):
                node, src, text = explorer.message(message)
                local = explorer.locals.known[here[node]]
                name = explorer.names[node]
                waiting = self._under_way[src, name, text]
                if waiting:
                    sent = waiting[0] if keep else waiting.popleft()
                    if keep:
                        sent = Sent(len(self.story.sent), src, name, sent.body, sent.sent, sent.line, copy=True)
                        self.story.sent.append(sent)
                    sent.fate, sent.arrived = "delivered", at
                if crash is None:
                    self._did(name, explorer.locals.message(local.number, src, text), at)
                else:
                    self._did(name, _cut(explorer.locals.crashes(local.number, "message", src, text), crash), at)
            case ("timer", node, crash):
                local = explorer.locals.known[here[node]]
                name = explorer.names[node]
                self.story.events.append(Happened("timer", name, at, local.timers[0][1]))
                if crash is None:
                    self._did(name, explorer.locals.timer(local.number), at)
                else:
                    self._did(name, _cut(explorer.locals.crashes(local.number, "timer"), crash), at)
            case ("crash", node):
                name = explorer.names[node]
                self._did(name, explorer.locals.crash(here[node]), at)

    def _next(self) -> int:
        """The order of what is done in one step."""
        self._done += 1
        return self._done

    def _did(self, name: str, move: Move, at: float) -> None:
        """Tell a move's effects in their order: what it did before it crashed, if it did, and after it."""
        done = 0
        for effect in move.effects:
            if effect[0] in ("send", "write") and (move.crashed is None or done < move.crashed):
                done += 1
                self._effect(name, effect, at)
        if move.crashed is not None:
            self.story.events += [Happened(what, name, at, order=self._next()) for what in ("crash", "restart")]
            for effect in move.again:
                self._effect(name, effect, at)

    def _effect(self, name: str, effect: list[Any], at: float) -> None:
        if effect[0] == "send":
            self._send(name, effect[1], effect[2], effect[3], at)
        elif effect[0] == "write":
            self._wrote(name, effect, at)

    def _wrote(self, name: str, effect: list[Any], at: float) -> None:
        told = f"{effect[1]} deleted" if effect[2] is None else f"{effect[1]} = {str(effect[2])[:200]}"
        self.story.events.append(Happened("write", name, at, told, effect[3], self._next()))

    def _send(self, src: str, dst: str, text: str, line: int | None, at: float) -> None:
        sent = Sent(len(self.story.sent), src, dst, json.loads(text), at, line, order=self._next())
        self.story.sent.append(sent)
        if dst in self.explorer.clients:  # an answer is heard at once
            sent.fate, sent.arrived = "delivered", at + 0.5
            self._history("ok", dst, sent.body, at + 0.5)
        else:
            self._under_way[src, dst, text].append(sent)

    def _history(self, kind: str, client: str, body: dict[str, object], at: float) -> None:
        value = body.get("value")
        f = str(body.get("type", "?")).removesuffix("_ok")
        kind = "info" if f == "error" else kind
        if kind != "invoke":
            begun = next((e for e in reversed(self.story.history) if e["process"] == client), None)
            if begun is None or begun["type"] != "invoke":
                return
            f, value = begun["f"], value if value is not None else begun["value"]
            event = {**begun, "type": kind, "value": value, "time": at, "answer": body.get("type")}
        else:
            event = {"process": client, "type": kind, "f": f, "key": body.get("key"), "value": value, "time": at}
        self.story.history.append(event)


def _cut(moves: Sequence[Move], crash: int) -> Move:
    return next(move for move in moves if move.crashed == crash)
