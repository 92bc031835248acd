"""Clusters of a chapter's own nodes, in this process: run in virtual time, or explored; and their pictures.

    run = cluster({"Store": Store}, 3, asks={"c1": [("n1", {"type": "write", "key": "x", "value": 1})]},
                  faults=[partition(0.5, 2.0, "n1", "n2 n3")])
    run                                  the space-time diagram
    run.answers                          what each client asked and was told, as a table
    run.history                          the operations, as Jepsen writes them

Times are virtual seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from courselib.svg import Drawn, Plot
from courselib.table import Table, table
from grader.nodes.actors import Local
from grader.nodes.clients import Ask
from grader.nodes.explorer import Explorer
from grader.nodes.locals import Locals
from grader.nodes.network import Network
from grader.nodes.node import Node
from grader.nodes.plan import Mishap, Plan, Played, play
from grader.nodes.shown import story
from grader.nodes.sim import Member, Simulation, messages_between
from grader.nodes.states import Model, View
from grader.trace import storyboard
from grader.trace.story import Story

Asking = Mapping[str, Sequence[tuple[Any, ...]]]


def partition(since: float, until: float, *groups: str) -> Mishap:
    """Between these times, groups of nodes ("n1 n2") cannot reach each other."""
    return Mishap("partition", since, until, tuple(tuple(group.split()) for group in groups))


def one_way(since: float, until: float, sources: str, targets: str) -> Mishap:
    """Nothing gets from the sources to the targets; the other way all is well."""
    return Mishap("one-way", since, until, (tuple(sources.split()), tuple(targets.split())))


def crash(since: float, until: float, nodes: str, after: int | None = None) -> Mishap:
    """The nodes are down between these times; with `after`, each from its so-manieth send or write on."""
    return Mishap("crash", since, until, (tuple(nodes.split()),), after)


def pause(since: float, until: float, nodes: str) -> Mishap:
    """The nodes stand still between these times."""
    return Mishap("pause", since, until, (tuple(nodes.split()),))


@dataclass(frozen=True)
class Run(Drawn):
    """What came of a cluster. Shown, it is its space-time diagram."""

    played: Played

    @property
    def sim(self) -> Simulation:
        return self.played.sim

    @property
    def story(self) -> Story:
        return self.played.sim.story

    @property
    def history(self) -> list[dict[str, Any]]:
        """The clients' reads, writes and cas, as Jepsen writes them."""
        return self.story.history

    @property
    def messages(self) -> int:
        """How many messages nodes sent each other."""
        return len(messages_between(self.story, self.sim.names))

    @property
    def answers(self) -> Table:
        """Every request, in order, with what was answered and when."""
        done = sorted((asked for client in self.played.clients.values() for asked in client.done), key=lambda a: a.sent)
        rows = []
        for asked in done:
            answered = "-" if asked.answered is None else f"{asked.answered:.2f} s"
            rows.append([
                asked.client, f"{asked.sent:.2f} s", asked.ask.node, _short(asked.ask.body),
                "no answer" if asked.answer is None else _short(asked.answer), answered,
            ])  # fmt: skip
        return table(["client", "at", "node", "request", "answer", "answered"], rows)

    def answer(self, client: str, number: int = 0) -> dict[str, Any] | None:
        """The body of a client's answer; None if there was none."""
        return self.played.clients[client].done[number].answer

    def picture(self, title: str = "", subtitle: str = "") -> Plot:
        """The space-time diagram."""
        return _drawn(self.story, title, subtitle)


def _short(body: Mapping[str, Any]) -> str:
    left_out = ("type", "msg_id", "in_reply_to")
    more = ", ".join(f"{name} {value}" for name, value in body.items() if name not in left_out)
    return f"{body.get('type')} {more}".strip()


def _drawn(told: Story, title: str, subtitle: str) -> Plot:
    told.title, told.subtitle = title or told.title, subtitle or told.subtitle
    return Plot(storyboard.svg(told), told.title)


def cluster(
    kinds: Mapping[str, type[Node]] | type[Node], size: int | Sequence[Member] = 3, asks: Asking | None = None,
    faults: Iterable[Mishap] = (), until: float = 10.0, seed: int = 1, network: Network | None = None,
    watched: Sequence[str] = (), prepare: Callable[[Played], None] = lambda _: None, **settings: Any,
) -> Run:  # fmt: skip
    """Run nodes in virtual time. An ask is (node, body) or (node, body, seconds after the answer before).

    `size` nodes n1, n2, ... of the one class, with `settings` set on each; or members with classes of their own.
    """
    kinds = {kinds.__name__: kinds} if isinstance(kinds, type) else dict(kinds)
    members = members_of(kinds, size, settings)
    wanted = {client: tuple(Ask(*one) for one in given) for client, given in (asks or {}).items()}
    plan = Plan(members, wanted, tuple(faults), network or Network(), seed, until=until)
    return Run(play(plan, Local(kinds, tuple(watched)), prepare=prepare))


def members_of(
    kinds: Mapping[str, type[Node]], size: int | Sequence[Member], settings: dict[str, Any]
) -> tuple[Member, ...]:
    """`size` nodes n1, n2, ... of the first class, with these settings; or members that are told."""
    if not isinstance(size, int):
        return tuple(size)
    kind = next(iter(kinds))
    return tuple(Member(f"n{number}", kind, (), dict(settings)) for number in range(1, size + 1))


@dataclass(frozen=True)
class Searched(Drawn):
    """What an exploration came to. Shown, it is the counterexample, if there is one."""

    problem: Any
    states: int
    exhausted: bool
    steps: int
    story: Story

    def picture(self, title: str = "", subtitle: str = "") -> Plot:
        return _drawn(self.story, title or str(self.problem or ""), subtitle)


def explore(
    kinds: Mapping[str, type[Node]] | type[Node], size: int | Sequence[Member], asks: Asking,
    judge: Callable[[View], Any], observe: Callable[[Locals, int], Any] | None = None, timers: int = 0,
    crashes: int = 0, copies: int = 0, most: int = 100_000, settled: Callable[[View], Any] | None = None,
    watched: Sequence[str] = (), **settings: Any,
) -> Searched:  # fmt: skip
    """Search every interleaving, breadth first; `judge` says what is wrong with a state (see `nodes.explorer`).

    Of attributes that are `watched`, `judge` finds (name, value) pairs in its view's `seen`, for each node; the values
    must be hashable.
    """
    kinds = {kinds.__name__: kinds} if isinstance(kinds, type) else dict(kinds)
    wanted = {client: tuple(Ask(*one) for one in given) for client, given in asks.items()}
    model = Model(members_of(kinds, size, settings), wanted, timers, crashes, copies)
    observe = observe or (_watched if watched else None)
    explorer = Explorer(Local(kinds, tuple(watched)), model, judge, observe, settled=settled)
    found = explorer.search(most)
    told = explorer.minimise(explorer.told(found.actions), bool) if found.problem else []
    again = explorer.replay(told)
    return Searched(found.problem, found.states, found.exhausted, len(told), story(explorer, again.actions))


def _watched(known: Locals, number: int) -> tuple[tuple[str, Any], ...]:
    return tuple(known.known[number].state.items())
