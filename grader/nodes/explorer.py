"""Every interleaving of a small cluster, within bounds (see `states`).

Breadth first finds a shortest counterexample; diving (at random, depth first) finds deep ones.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from grader.nodes.smaller import smallest, without_one
from grader.nodes.states import Action, Property, State, States


@dataclass
class Found:
    """What a search came to. `problem` is what the property said of the last state of `actions`, None if it held
    everywhere; `exhausted`: there is no further state within the bounds; otherwise the budget was."""

    problem: Any
    actions: list[Action]
    states: int
    exhausted: bool
    depth: int = 0
    state: State | None = None


class Explorer(States):
    """Searches among the states of one model."""

    # ---- searches

    def search(
        self, most: int = 100_000, depth: int = 1000, begin: State | None = None, goal: Property | None = None
    ) -> Found:
        """Breadth first, up to `most` states: the first that is wrong, by a shortest way.

        With `goal`, the first of which that is true, to go on from there: its `problem` is then what `goal` said.
        """
        first = self.begin() if begin is None else begin
        came: dict[State, tuple[State, Action] | None] = {first: None}
        look = self.problem if goal is None else (lambda state: goal(self.view(state)))
        found = look(first)
        if found:
            return Found(found, [], 1, False, 0, first)
        level, deep = [first], 0
        while level and deep < depth:
            deep += 1
            following: list[State] = []
            for state in level:
                for action, after in self.next(state):
                    if after in came:
                        continue
                    came[after] = (state, action)
                    found = look(after)
                    if found:
                        return Found(found, _way(came, after), len(came), False, deep, after)
                    following.append(after)
                if len(came) >= most:
                    return Found(None, [], len(came), False, deep)
            level = following
        return Found(None, [], len(came), not level, deep)

    def dive(self, seed: int, walks: int, depth: int, begin: State | None = None) -> Found:
        """Random walks of up to `depth` steps. What it did not come by, it says nothing of."""
        rng = random.Random(f"dive {seed}")
        first = self.begin() if begin is None else begin
        states = 0
        actions: list[Action] = []
        for _ in range(walks):
            state, actions = first, []
            for _ in range(depth):
                choices = list(self.next(state))
                if not choices:
                    break
                action, state = rng.choice(choices)
                actions.append(action)
                states += 1
                found = self.problem(state)
                if found:
                    return Found(found, actions, states, False, len(actions), state)
        return Found(None, actions, states, False, depth)  # the last walk, for who wants to see one

    # ---- what is kept of a counterexample

    def told(self, actions: Sequence[Action]) -> list[dict[str, Any]]:
        """Actions as JSON, by what they are and not by number: to keep, and to play again."""
        return [self._tell(action) for action in actions]

    def _tell(self, action: Action) -> dict[str, Any]:
        match action:
            case ("deliver", message, crash, keep):
                node, src, text, _ = self._messages[message]
                told = {"do": "deliver", "src": src, "dst": self.names[node], "body": json.loads(text)}
                return told | ({"crash_after": crash} if crash else {}) | ({"again": True} if keep else {})
            case ("timer", node, crash):
                return {"do": "timer", "node": self.names[node]} | ({"crash_after": crash} if crash else {})
            case ("crash", node):
                return {"do": "crash", "node": self.names[node]}
        return {"do": "ask", "client": action[1]}

    def replay(self, told: Sequence[dict[str, Any]], begin: State | None = None) -> Found:
        """Play actions again, up to the first state that is wrong. What is not possible any more is left out; a message
        that is worded otherwise now is taken by its sender, receiver and type."""
        state = self.begin() if begin is None else begin
        done: list[Action] = []
        found = self.problem(state)
        if found:
            return Found(found, done, 0, False, 0, state)
        for one in told:
            step = self._fitting(one, state)
            if step is None:
                continue
            done.append(step[0])
            state = step[1]
            found = self.problem(state)
            if found:
                return Found(found, done, len(done), False, len(done), state)
        return Found(None, done, len(done), False, len(done), state)

    def _fitting(self, wanted: dict[str, Any], state: State) -> tuple[Action, State] | None:
        second = None
        for action, after in self.next(state):
            here = self._tell(action)
            if here == wanted:
                return action, after
            if second is None and wanted["do"] == here["do"] == "deliver" and _alike(wanted, here):
                second = action, after
        return second

    def minimise(self, told: list[dict[str, Any]], same: Callable[[Any], bool]) -> list[dict[str, Any]]:
        """Without the actions that are not needed for a problem of which `same` is true."""

        def kept(candidate: Sequence[dict[str, Any]]) -> list[dict[str, Any]] | None:
            found = self.replay(candidate)
            return self.told(found.actions) if found.problem and same(found.problem) else None

        return smallest(told, without_one, kept)


def _alike(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return {**one, "body": one["body"].get("type")} == {**other, "body": other["body"].get("type")}


def _way(came: Mapping[State, tuple[State, Action] | None], state: State) -> list[Action]:
    actions = []
    while (step := came[state]) is not None:
        state, action = step
        actions.append(action)
    return actions[::-1]
