"""Scripts for clusters whose leader nobody knows beforehand: scenes that know who leads, and wait for leaders."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from grader.exercises.common.scenes import Script, Staged, has_answer, ok
from grader.nodes.bench import NodeBench
from grader.nodes.clients import Asked
from grader.nodes.life import Step
from grader.nodes.plan import Played
from grader.nodes.sim import Simulation
from grader.says import listed

KEPT_SHORT = 2.0  # seconds in which a request is answered where a leader reaches a majority
PATIENCE = 8.0  # seconds for what a check needs and another check judges


class Scene(Staged):
    """A simulation with a script, and what it shows of leaders."""

    def __init__(self, played: Played, bench: NodeBench) -> None:
        super().__init__(played, bench)
        self.led: dict[int, dict[str, float]] = {}  # who said to be leader of which term, since when
        self.sim.whom = lambda node: whom(self.sim, node)

    def _stepped(self, node: str, step: Step) -> None:
        if step.state.get("role") == "leader" and isinstance(step.state.get("current_term"), int):
            self.led.setdefault(step.state["current_term"], {}).setdefault(node, self.sim.time)
        super()._stepped(node, step)

    def no_candidates(self, *nodes: str) -> None:
        """These nodes do not stand for election: their timers are late for now, and nobody hears them ask for votes."""
        self.sim.slow = frozenset(nodes)
        self.dropped["candidates"] = lambda message: message.src in nodes and message.type == "request_vote"

    def candidates_again(self) -> None:
        """All nodes may stand again, and nothing is dropped."""
        self.dropped.clear()
        self.sim.slow = frozenset()

    def whole(self) -> None:
        """All links work, all nodes are up."""
        self.candidates_again()
        super().whole()

    # ---- who is who

    def leaders(self) -> dict[int, dict[str, float]]:
        """By term, its leaders and since when: by their attributes, and by who sent append_entries."""
        found = {term: dict(nodes) for term, nodes in self.led.items()}
        for message in self.sim.story.sent:
            term = message.body.get("term")
            if message.type == "append_entries" and isinstance(term, int) and message.src in self.names:
                nodes = found.setdefault(term, {})
                nodes[message.src] = min(nodes.get(message.src, message.sent), message.sent)
        return found

    def term(self, node: str) -> int:
        return term(self.sim, node)

    def role(self, node: str) -> Any:
        return self.sim.state(node).get("role") if self.sim.places[node].up else None

    def leader(self, among: Iterable[str] | None = None) -> str | None:
        return leader(self.sim, among)

    def stayed(self) -> str:
        """In words, with a space before them: a leader that has heard of a higher term in the log's messages, and leads on."""
        for sent in self.sim.story.sent:
            node, there = sent.dst, sent.body.get("term")
            heard = sent.type in ("append_entries", "append_entries_res") and sent.fate == "delivered"
            heard = heard and sent.arrived is not None and sent.arrived < self.sim.time and node in self.names
            if heard and isinstance(there, int) and self.role(node) == "leader" and self.term(node) < there:
                return (
                    f" At {sent.arrived:.2f} s an {sent.type} of term {there} reached {node}, but at {self.sim.time:.2f} s {node} "
                    f"still had role = 'leader' in term {self.term(node)}. A leader that sees a higher term, in any message or "
                    "reply, must step down."
                )
        return ""

    def stood(self, since: float) -> str:
        """In words, with a space before them: who stood for election first after a time."""
        asked = (sent for sent in self.sim.story.sent if sent.type == "request_vote" and sent.sent > since)
        first = next((sent for sent in asked if sent.src in self.names), None)
        return f" Meanwhile {first.src} stood for election, at {first.sent:.2f} s." if first else ""

    # ---- what scripts do again and again

    def elected(self, among: Iterable[str] | None = None, seconds: float = PATIENCE, above: int = 0) -> Script:
        """Wait for a leader among these nodes whose term is above the given one: its name, or None."""
        nodes = list(among) if among is not None else None

        def found() -> str | None:
            name = self.leader(nodes)
            return name if name is not None and self.term(name) > above else None

        return (yield found, seconds)

    def settled(self, among: Iterable[str] | None = None, above: int = 0) -> Script:
        """As `elected`, but without a leader there is nothing to judge. Raises Stuck."""
        since = self.sim.time
        name = yield from self.elected(among, PATIENCE, above)
        if name is None:
            who = f"none of {listed(among)}" if among is not None else "no node"
            of = f" in a term above {above}" if above else ""
            raise self.stuck(
                f"From {since:.2f} s to {self.sim.time:.2f} s {who} became leader (role = 'leader'{of}), although a majority of "
                f"the nodes was up and could talk.{self.stayed()} Elect a leader within 3 s.", "a leader within 3 s", "none",
            )  # fmt: skip
        return name

    def ask(self, node: str, kind: str, key: Any = "x", **fields: Any) -> Asked:
        """A client sends a request, now."""
        return self.request(node, {"type": kind, "key": key, **fields})

    def done(self, kind: str, key: Any = "x", among: Iterable[str] | None = None, **fields: Any) -> Script:
        """Ask the leader, and again whoever is leader then, until it is done: what was asked. Raises Stuck."""
        since, asked, value = self.sim.time, None, fields.get("value")
        while self.sim.time < since + PATIENCE:
            node = yield from self.settled(among)
            asked = self.ask(node, kind, key, **fields)
            yield has_answer(asked), KEPT_SHORT
            if asked.answer is not None and (ok(asked) or asked.answer.get("code") in (20, 22)):
                return asked
            if value is not None:  # what is written is written once
                fields["value"] = f"{value}, asked for again at {self.sim.time:.3f} s"
            yield from self.pause(0.1)
        assert asked is not None
        raise self.stuck(
            f"From {since:.2f} s to {self.sim.time:.2f} s no {kind} of {key} succeeded, although a majority was up and could "
            f"talk. The last {kind} went to the leader, {asked.ask.node}, and was "
            f"{'not answered' if asked.answer is None else 'answered with ' + json.dumps(asked.answer)[:160]}. A leader that "
            f"reaches a majority must serve a request within {KEPT_SHORT:g} s.{self.stayed()}",
            f"{kind}_ok", "nothing" if asked.answer is None else "an error",
        )  # fmt: skip


def term(sim: Simulation, node: str) -> int:
    """A node's current_term, as far as it says one."""
    value = sim.state(node).get("current_term")
    return value if isinstance(value, int) else -1


def leader(sim: Simulation, among: Iterable[str] | None = None) -> str | None:
    """The leader of the highest term that is up; None without one."""
    nodes = [name for name in (sim.names if among is None else among) if sim.places[name].up]
    leaders = [name for name in nodes if sim.state(name).get("role") == "leader"]
    return max(leaders, key=lambda name: term(sim, name), default=None)


def whom(sim: Simulation, called: str) -> str:
    """Which node is meant: "leader", "old" (another that takes itself for one), "other", or a node's name."""
    if called in sim.places:
        return called
    now = leader(sim)
    others = [name for name in sim.names if name != now]
    if called == "leader":
        return now or sim.names[int(sim.time * 1000) % len(sim.names)]
    if called == "old":
        stale = [name for name in others if sim.state(name).get("role") == "leader"]
        return (stale or others)[0]
    return others[int(sim.time * 1000) % len(others)]
