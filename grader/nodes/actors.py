"""Who runs nodes: in this process, for code of our own (`Local`), or in a box (see `boxed`). One interface for both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from grader.nodes.fingerprint import fingerprint
from grader.nodes.life import Birth, Life, Step
from grader.nodes.node import Node


class Turn(NamedTuple):
    """One input for one node, at `now` of its own clock. With `birth` it begins a life with it."""

    node: str
    what: list[Any]
    now: float
    birth: Birth | None = None


@dataclass(frozen=True)
class Branch:
    """What a node does on an input after a past that is known: the step, the number of that past and of the state it
    is in now: two pasts with the same number of state are the same node from here on."""

    step: Step
    past: int
    state: str


Asked = list[Any]  # as JSON: ["turn", world, node, what, now, birth] or ["past", world, birth, past, what, now]


def turn_asked(world: str, turn: Turn) -> Asked:
    """A turn of a node of that world, as it is asked of a box."""
    return ["turn", world, turn.node, turn.what, turn.now, None if turn.birth is None else turn.birth.to_json()]


def past_asked(world: str, birth: Birth, past: int, what: list[Any], now: float) -> Asked:
    """The input of `Actors.branch`, as it is asked of a box."""
    return ["past", world, birth.to_json(), past, what, now]


def named(asked: Asked) -> str:
    """The name of the node that is asked."""
    return str(asked[2] if asked[0] == "turn" else asked[2][1])


class Actors(Protocol):
    """Runs nodes. Raises `Lost` where their process ends or never comes back."""

    watched: tuple[str, ...]

    def turns(self, turns: Sequence[Turn]) -> list[Step]:
        """Each node lives on with its input; no node is named twice."""
        ...

    def forget(self) -> None:
        """No node lives any more: another simulation begins."""
        ...

    def branch(self, birth: Birth, past: int, what: list[Any], now: float) -> Branch:
        """Give an input to a node with this past (-1 before its birth), of which any number are kept."""
        ...


class Local:
    """Nodes in this process, by class name: for the course, benchmarks and tests."""

    def __init__(self, classes: Mapping[str, type[Node]], watched: tuple[str, ...] = ()) -> None:
        self._classes, self.watched = dict(classes), watched
        self._lives: dict[str, Life] = {}
        self._pasts = Pasts(self._born)

    def _born(self, birth: Birth) -> Life:
        return Life(self._classes[birth.kind], birth, watched=self.watched)

    def turns(self, turns: Sequence[Turn]) -> list[Step]:
        steps = []
        for turn in turns:
            if turn.birth is not None:
                self._lives[turn.node] = self._born(turn.birth)
            steps.append(self._lives[turn.node].step(turn.what, turn.now))
        return steps

    def forget(self) -> None:
        self._lives.clear()

    def branch(self, birth: Birth, past: int, what: list[Any], now: float) -> Branch:
        return self._pasts.branch(birth, past, what, now)


class Diverged(Exception):  # noqa: N818 - reads as what happened
    """The same inputs, given again, had other effects."""

    def __init__(self, name: str, what: list[Any], first: list[list[Any]], again: list[list[Any]]) -> None:
        super().__init__(f"{name} did not do the same again")
        self.name, self.what, self.first, self.again = name, what, first, again


class Pasts:
    """Many possible lives, each known by the inputs it had. Only some are kept as objects; the others are lived again.

    Node objects need not be copyable: they may hold generators. Living again shows whether handlers are deterministic.
    """

    MOST_ALIVE = 2000
    LIVED_TWICE = 8  # of so many pasts one is lived again for no other reason than to see whether it comes out the same

    def __init__(self, born: Any) -> None:
        self._born = born
        self._known: list[tuple[int, Birth, list[Any], float, list[list[Any]]]] = []
        self._by_input: dict[tuple[Any, ...], Branch] = {}
        self._alive: dict[int, Life] = {}
        self._births: dict[str, int] = {}

    def branch(self, birth: Birth, past: int, what: list[Any], now: float) -> Branch:
        """See Actors. Raises Diverged."""
        key = (past, repr(birth.to_json()) if past < 0 else "", tuple(what), now)
        found = self._by_input.get(key)
        if found is not None:
            return found
        life = self._alive.pop(past, None) if past >= 0 else self._born(birth)
        if life is None:
            life = self._again(past)
        step = life.step(what, now)
        number = len(self._known)
        self._known.append((past, birth, what, now, step.effects))
        if len(self._alive) >= self.MOST_ALIVE:
            self._alive.pop(next(iter(self._alive)))
        self._alive[number] = life
        if number % self.LIVED_TWICE == 0 and step.raised is None:
            self._again(number)
        state = fingerprint(life) if step.raised is None else f"raised {number}"
        found = self._by_input[key] = Branch(step, number, state)
        return found

    def _again(self, past: int) -> Life:
        chain = []
        while past >= 0:
            chain.append(self._known[past])
            past = chain[-1][0]
        life: Life = self._born(chain[-1][1])
        for _, birth, what, now, before in reversed(chain):
            effects = life.step(what, now).effects
            if effects != before:
                raise Diverged(birth.name, what, before, effects)
        return life
