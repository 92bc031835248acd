"""What a run of Raft nodes shows from outside: who led which term, and what clients were told. Sentences for what is
wrong with it."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from grader.exercises.raft.scene import Scene, ok
from grader.nodes.bench import NodeBench
from grader.nodes.clients import DEFINITE, Asked
from grader.nodes.histories.checker import linearizable
from grader.nodes.histories.history import pair
from grader.nodes.life import Step
from grader.nodes.sim import Simulation
from grader.trace.story import Sent, Story
from grader.verdict import Diagnosis


class Watch:
    """Who was leader of which term, from when on: by the attributes of nodes, and by who sent append_entries."""

    def __init__(self, sim: Simulation) -> None:
        self.sim = sim
        self.led: dict[int, dict[str, float]] = {}
        sim.on_step.append(self._stepped)

    def _stepped(self, node: str, step: Step) -> None:
        if step.state.get("role") == "leader" and isinstance(step.state.get("current_term"), int):
            self.led.setdefault(step.state["current_term"], {}).setdefault(node, self.sim.time)

    def leaders(self) -> dict[int, dict[str, float]]:
        """By term, its leaders and since when."""
        found = {term: dict(nodes) for term, nodes in self.led.items()}
        for message in self.sim.story.sent:
            term = message.body.get("term")
            if message.type == "append_entries" and isinstance(term, int) and message.src in self.sim.names:
                nodes = found.setdefault(term, {})
                nodes[message.src] = min(nodes.get(message.src, message.sent), message.sent)
        return found


def two_leaders(nodes: NodeBench, watch: Watch) -> Diagnosis | None:
    """Two leaders of one term."""
    for term, led in sorted(watch.leaders().items()):
        if len(led) < 2:
            continue
        (first, since), (second, then) = sorted(led.items(), key=lambda item: item[1])[:2]
        had = f"Term {term} had two leaders: {first} from {since:.3f} s on and {second} from {then:.3f} s on."
        return led_twice(nodes, watch.sim.story, had, term, first, second)
    return None


def led_twice(nodes: NodeBench, story: Story, had: str, term: int, first: str, second: str) -> Diagnosis:
    """Two leaders of one term, and how that came about; `had` says who they were. Marks it in the story."""
    voters = _answered_both(story.sent, term, first, second)
    told, line = "", None
    if voters:
        voter, messages = voters[0]
        story.marked.update(message.number for message in messages)
        line = messages[-1].line
        times = " and ".join(_when(story, message.sent) for message in (messages[0], messages[-1]))
        told = f" {voter} answered the request_vote of both, at {times}{nodes.source.quote(line)}."
    else:
        story.marked.update(
            message.number for message in story.sent
            if message.type == "append_entries" and message.body.get("term") == term and message.src in (first, second)
        )  # fmt: skip
        told, line = _between_candidates(nodes, story, term, first, second)
    crashed = [
        event for event in story.events
        if event.what == "crash" and voters and event.node == voters[0][0]
        and voters[0][1][0].sent <= event.at <= voters[0][1][-1].sent
    ]  # fmt: skip
    because = "In one term a node has one vote, and an answer counts only in the term in which it was asked for"
    if crashed:
        because += f"; {crashed[0].node} crashed at {_when(story, crashed[0].at)}: term and vote must be on disk before the answer"
    return nodes.found(
        "wrong_result",
        f"{had}{told} {because}.",
        line,
        "at most one leader a term",
        f"{first} and {second} in term {term}",
    )


def _when(story: Story, time: float) -> str:
    return f"step {time:g}" if story.unit == "step" else f"{time:.3f} s"


def _answered_both(sent: Sequence[Sent], term: int, first: str, second: str) -> list[tuple[str, list[Sent]]]:
    """Nodes that answered both candidates of a term, with the last answer to each."""
    found = []
    for voter in sorted({message.src for message in sent}):
        answers = [
            next(
                (m for m in reversed(sent) if m.type == "request_vote_res" and m.src == voter and m.dst == candidate
                 and m.body.get("term") == term), None,
            )
            for candidate in (first, second)
        ]  # fmt: skip
        known = [answer for answer in answers if answer is not None]
        if len(known) == 2:
            found.append((voter, sorted(known, key=lambda message: message.sent)))
    return found


def _between_candidates(nodes: NodeBench, story: Story, term: int, first: str, second: str) -> tuple[str, int | None]:
    """Of two candidates of a term, one that answered the other: in words, and the line."""
    for message in story.sent:
        if message.type != "request_vote_res" or message.body.get("term") != term:
            continue
        if {message.src, message.dst} == {first, second}:
            text = (
                f" {message.src}, which stood itself and so had voted for itself, answered the request_vote of "
                f"{message.dst} at {_when(story, message.sent)}{nodes.source.quote(message.line)}: that answer must be no."
            )
            return text, message.line
    return "", None


# ---- what clients were told


@dataclass(frozen=True)
class Told:
    """A write (or a cas that was done), or a read, with its node and times."""

    asked: Asked
    value: Any
    node: str
    begin: float
    end: float  # infinity if nobody knows whether it was done

    @property
    def words(self) -> str:
        body = self.asked.ask.body
        return f"the {body['type']} of {_short(self.value)} to {body['key']}"


def wrong_history(
    nodes: NodeBench, sim: Simulation, done: Sequence[Asked], why: str = "", lost: bool = False
) -> Diagnosis | None:
    """Confirmed writes that are gone, reads of what was overwritten, and anything else that no order explains."""
    found = _gone_or_stale(nodes, sim, done, why, lost)
    if found is not None:
        return found
    checked = linearizable(pair(sim.story.history), "cas-register") if done else None
    if checked is None or checked.valid is not False:
        return None  # what the search gave up on is no proof of anything
    begun = [asked for asked in done if asked.ask.body["key"] == checked.key and asked.answered is not None]
    if begun:
        _mark(sim, max(begun, key=lambda asked: asked.answered or 0.0))
    return nodes.found(
        "not_linearizable",
        f"No order of the operations explains what clients were told: {checked.reason} {why}".strip(),
        None, "one order in which each operation takes effect between its request and its answer", "none",
    )  # fmt: skip


def _gone_or_stale(nodes: NodeBench, sim: Simulation, done: Sequence[Asked], why: str, lost: bool) -> Diagnosis | None:
    """The common violations, in words. Values are written once each."""
    for key in dict.fromkeys(_key(asked) for asked in done):
        here = [asked for asked in done if _key(asked) == key]
        writes = [told for asked in here if (told := _write(sim, asked)) is not None]
        reads = [told for asked in here if (told := _read(sim, asked)) is not None]
        by_value = {json.dumps(write.value): write for write in writes}
        last = max((read.begin for read in reads), default=0.0)
        for read in sorted(reads, key=lambda told: told.begin):
            source = by_value.get(json.dumps(read.value))
            if read.value is not None and source is None:
                continue  # the search judges it: nobody wrote that
            before = [
                write for write in writes
                if write.end <= read.begin and write is not source and (source is None or source.end <= write.begin)
            ]  # fmt: skip
            if not before:
                continue
            newest = max(before, key=lambda told: told.end)
            again = any(
                later.begin >= read.begin and _not_older(by_value.get(json.dumps(later.value)), newest)
                for later in reads
            )
            gone = lost or (not again and read.begin == last)
            _mark(sim, newest.asked, read.asked)
            saw = "found nothing" if read.value is None else f"found {_short(read.value)}"
            what = "a confirmed write is gone" if gone else "a read returned what had been overwritten"
            at_once = _at_once(sim, read.asked)
            if gone and at_once:  # then nobody can tell whether it is gone
                what = "a confirmed write is gone, or a read did not look for it"
            return nodes.found(
                "not_durable" if gone else "not_linearizable",
                f"{_cap(what)}: {newest.node} confirmed {newest.words} at {newest.end:.3f} s, but the read that {read.node} "
                f"answered at {read.end:.3f} s (asked for at {read.begin:.3f} s) {saw}. {at_once or why}".strip(),
                _line(sim, read.asked), _short(newest.value), _short(read.value),
            )  # fmt: skip
    return None


def _at_once(sim: Simulation, read: Asked) -> str:
    """In words, if a read was answered in the very moment in which it arrived: then no other node was asked."""
    answer = _answer(sim, read)
    if answer is None or not any(
        sent.src == read.client and sent.dst == answer.src and sent.arrived == answer.sent
        and sent.body.get("msg_id") == answer.body.get("in_reply_to")
        for sent in sim.story.sent
    ):  # fmt: skip
        return ""
    return (
        f"{answer.src} answered at once, from what it had applied by then. It may not lead any more, or have committed "
        "nothing of its own term yet: a leader must hear from a majority before it answers a read, or bring the read "
        "into the log (section 8)."
    )


def _not_older(source: Told | None, write: Told) -> bool:
    return source is not None and (source is write or source.end >= write.begin)


def _write(sim: Simulation, asked: Asked) -> Told | None:
    body = asked.ask.body
    if body["type"] not in ("write", "cas"):
        return None
    value = body["value"] if body["type"] == "write" else body["to"]
    if ok(asked):
        return Told(asked, value, _answerer(sim, asked), asked.sent, asked.answered or 0.0)
    if asked.answer is not None and asked.answer.get("code") in DEFINITE:
        return None
    return Told(asked, value, asked.ask.node, asked.sent, math.inf)


def _read(sim: Simulation, asked: Asked) -> Told | None:
    if asked.ask.body["type"] != "read" or asked.answer is None or asked.answered is None:
        return None
    if ok(asked):
        return Told(asked, asked.answer.get("value"), _answerer(sim, asked), asked.sent, asked.answered)
    if asked.answer.get("code") == 20:
        return Told(asked, None, _answerer(sim, asked), asked.sent, asked.answered)
    return None


def _key(asked: Asked) -> str:
    return json.dumps(asked.ask.body["key"])


def _answer(sim: Simulation, asked: Asked) -> Sent | None:
    return next((sent for sent in sim.answers if sent.dst == asked.client and sent.arrived == asked.answered), None)


def _answerer(sim: Simulation, asked: Asked) -> str:
    answer = _answer(sim, asked)
    return answer.src if answer is not None else asked.ask.node


def _line(sim: Simulation, asked: Asked) -> int | None:
    answer = _answer(sim, asked)
    return answer.line if answer is not None else None


def _mark(sim: Simulation, *asked: Asked) -> None:
    sim.story.marked.update(sent.number for one in asked if (sent := _answer(sim, one)) is not None)


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else text[:37] + "..."


def _cap(text: str) -> str:
    return text[:1].upper() + text[1:]


def all_asked(scene: Scene) -> list[Asked]:
    """Every request of every client."""
    clients = [*scene.played.clients.values(), *scene.clients]
    return [asked for client in clients for asked in client.done]


def unsafe(nodes: NodeBench, scene: Scene, watch: Watch, why: str = "", lost: bool = False) -> Diagnosis | None:
    """What must hold of every run: one leader a term, and answers that one order explains. `lost` is whether nodes forgot
    what a read does not find, as the script has left nobody else to ask."""
    return two_leaders(nodes, watch) or wrong_history(nodes, scene.sim, all_asked(scene), why, lost)
