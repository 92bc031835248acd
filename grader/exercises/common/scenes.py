"""Scripts for clusters of nodes, where what comes next depends on what the nodes do: generators that watch a simulation,
and act when they see what they wait for.

A script yields `(condition, seconds)` and is sent what the condition said, as soon as that is true, or else None.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from itertools import count
from typing import Any

from grader.nodes.bench import NodeBench
from grader.nodes.clients import Ask, Asked, Client
from grader.nodes.life import Step
from grader.nodes.plan import Played, whole
from grader.trace.story import Sent
from grader.verdict import Diagnosis

Waiting = tuple[Callable[[], Any], float]
Script = Generator[Waiting, Any, Any]
Rule = Callable[[Sent], bool]

FAST = 0.001  # seconds that a message takes which has to be there first
SLOW = 0.11  # seconds that a message takes which has to be there last: longer than one to another node and back
ARRIVED = 0.06  # seconds after which a message has arrived that nothing holds back
MOST_EVENTS = 50_000  # of one run; right solutions have less than 10,000


class Stuck(Exception):  # noqa: N818 - reads as what happened to the script
    """The cluster does not do what any cluster does; carries the diagnosis."""

    def __init__(self, diagnosis: Diagnosis) -> None:
        super().__init__(diagnosis.message)
        self.diagnosis = diagnosis


def carries(message: Sent, value: str) -> bool:
    """Whether the text of a message holds this value, wherever its fields keep it."""
    return message.holds(value)


class Staged:
    """A simulation with a script. Messages that a rule of `dropped` or `held` is true of do not arrive; the latter are
    kept, to be let go later. `hurried` ones arrive first, `slowed` ones last. `seen` is called with each message that is sent."""

    def __init__(self, played: Played, bench: NodeBench) -> None:
        self.played, self.sim, self.bench = played, played.sim, bench
        self.rng = bench.rng(f"scene {played.plan.seed}")
        self.dropped: dict[str, Rule] = {}
        self.held: dict[str, Rule] = {}
        self.hurried: dict[str, Rule] = {}
        self.slowed: dict[str, Rule] = {}
        self.seen: list[Callable[[Sent], None]] = []
        self.kept: dict[str, list[Sent]] = {}
        self.found: Diagnosis | None = None
        self.noted: Any = None  # by the script, for who judges
        self._script: Script | None = None
        self._waiting: Waiting | None = None
        self._number = 0  # of what is waited for
        self._told = False
        self.clients: list[Client] = []  # of `ask`
        self.sim.route = self._route
        self.sim.most_events = MOST_EVENTS
        self.sim.on_step.append(self._stepped)

    # ---- how a script goes on

    def play(self, script: Script) -> None:
        """Have a script run with the simulation, which stops at its end."""
        self._script = script
        self.sim.at(0.0, lambda: self._go_on(None))

    def _stepped(self, node: str, step: Step) -> None:
        self._look()

    def _look(self) -> None:
        """See whether what is waited for has come; the script goes on after the steps that are being carried out."""
        if self._waiting is not None and not self._told and self._waiting[0]():
            self._told, number = True, self._number
            self.sim.at(self.sim.time, lambda: self._seen(number))

    def _seen(self, number: int) -> None:
        if number == self._number and self._waiting is not None:
            self._told = False
            answer = self._waiting[0]()
            if answer:
                self._go_on(answer)

    def _late(self, number: int) -> None:
        if number == self._number:
            self._go_on(None)

    def _go_on(self, answer: Any) -> None:
        assert self._script is not None
        while True:
            try:
                condition, seconds = self._script.send(answer)
            except StopIteration:
                self._waiting = self._script = None
                self.sim.stop()
                return
            except Stuck as stuck:
                self.found, self._waiting, self._script = stuck.diagnosis, None, None
                self.sim.stop()
                return
            self._waiting, self._told = (condition, seconds), False
            self._number += 1
            answer = condition()
            if not answer:
                break
        number = self._number
        self.sim.at(self.sim.time + seconds, lambda: self._late(number))

    # ---- messages

    def _route(self, message: Sent) -> list[float] | None:
        for look in self.seen:
            look(message)
        for rule in self.dropped.values():
            if rule(message):
                return []
        for name, rule in self.held.items():
            if rule(message):
                self.kept.setdefault(name, []).append(message)
                return []
        for rule in self.hurried.values():
            if rule(message):
                return [FAST]
        for rule in self.slowed.values():
            if rule(message):
                return [SLOW]
        return None

    def let_go(self, name: str, also: Rule = lambda _: True) -> None:
        """Let what was held under this name arrive now, in its order; nothing more is held."""
        self.held.pop(name, None)
        kept = [message for message in self.kept.pop(name, []) if also(message)]
        for place, message in enumerate(kept):
            self.sim.late(message, FAST + 0.0002 * place)

    def crash_after_sending(self, node: str, rule: Rule) -> Callable[[], None]:
        """Crash `node` right after it sends a message of which the rule is true; unless what is returned is called."""

        def look(message: Sent) -> None:
            if message.src == node and rule(message):
                self.sim.crash_after(node, self.sim.places[node].done + 1)
                self.seen.remove(look)

        self.seen.append(look)
        return lambda: self.seen.remove(look) if look in self.seen else None

    def is_down(self, node: str) -> bool:
        return not self.sim.places[node].up

    def crash_after_writing(self, node: str, number: int = 1) -> Callable[[], None]:
        """Crash `node` right after its `number`-th write to its disk from now on, in the middle of a handler, and after
        each later one, until what is returned is called."""
        left = number

        def look(name: str) -> None:
            nonlocal left
            left -= name == node
            if name == node and left <= 0:
                self.sim.crash_after(node, self.sim.places[node].done + 1)

        self.sim.on_write.append(look)
        return lambda: self.sim.on_write.remove(look)

    def cut(self, *groups: Sequence[str]) -> None:
        """From now on these groups cannot reach each other, and nothing else is cut."""
        self.sim.heal()
        self.sim.partition(*groups)

    def whole(self) -> None:
        """All links work, all nodes are up."""
        self.hurried.clear()
        self.slowed.clear()
        whole(self.sim)

    # ---- what scripts do again and again

    @property
    def names(self) -> tuple[str, ...]:
        return self.sim.names

    def others(self, *nodes: str) -> list[str]:
        """The other nodes, in random order."""
        left = [name for name in self.names if name not in nodes]
        self.rng.shuffle(left)
        return left

    def stuck(self, text: str, expected: str, got: str) -> Stuck:
        """What a script raises where it cannot go on."""
        return Stuck(self.bench.found("not_available", text, None, expected, got))

    def pause(self, seconds: float) -> Script:
        yield lambda: False, seconds

    def request(self, node: str, body: dict[str, Any]) -> Asked:
        """A client that waits for nothing sends a request, now."""
        free = next((client for client in self.clients if not client.waits), None)
        if free is None:
            name = next(name for number in count(1) if (name := f"c{number}") not in self.sim.clients)
            free = Client(self.sim, name, (), self.sim.time, hear=None)
            self.sim.clients[free.name] = _then(self.sim.clients[free.name], self._look)
            self.clients.append(free)
        return free.ask(Ask(node, body))


def has_answer(asked: Asked) -> Callable[[], bool]:
    return lambda: asked.answer is not None


def ok(asked: Asked) -> bool:
    return asked.answer is not None and asked.answer.get("type") == f"{asked.ask.body['type']}_ok"


def _then(first: Callable[[Sent], None], after: Callable[[], None]) -> Callable[[Sent], None]:
    def both(message: Sent) -> None:
        first(message)
        after()

    return both
