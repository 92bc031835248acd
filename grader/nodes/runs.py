"""A run of nodes as a judge sees it: who was up and who could reach whom, what clients asked and were answered, and
which messages show what is wrong."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from grader.nodes.clients import Asked, Client
from grader.nodes.plan import Mishap, Played
from grader.nodes.sim import messages_between
from grader.trace.story import Sent, Story
from grader.verdict import Diagnosis, Kind

Group = tuple[str, ...]


@dataclass(frozen=True)
class Served:
    """A request as the messages show it: which node served it, when it `came` there (infinity: never), its answer."""

    client: str
    node: str
    body: dict[str, Any]
    came: float
    answer: Sent | None


class Run:
    """A played plan, and what judges ask of it. `more` are clients that came with `prepare`. Times in seconds."""

    def __init__(self, played: Played, more: Iterable[Client] = ()) -> None:
        self.played, self.plan, self.sim = played, played.plan, played.sim
        self.story, self.file, self.names = played.sim.story, played.sim.file, played.sim.names
        clients = (*played.clients.values(), *more)
        self.asked: list[Asked] = sorted((one for client in clients for one in client.done), key=lambda one: one.sent)
        self.offsets = {member.name: member.offset for member in played.plan.members}  # of the nodes' clocks
        self.downs: dict[str, list[tuple[float, float]]] = {name: [] for name in self.names}
        for fault in self.story.faults:
            if fault.what == "down":
                self.downs[fault.groups[0][0]].append((fault.since, fault.until))

    # ---- who was up, and who could reach whom

    def up(self, node: str, since: float, until: float) -> bool:
        """Whether a node was up all this time."""
        return since >= 0 and not any(begin <= until and since <= end for begin, end in self.downs[node])

    def down(self, node: str, since: float, until: float) -> tuple[float, float] | None:
        """The outage that lasted all this time."""
        return next((out for out in self.downs[node] if out[0] <= since and until <= out[1]), None)

    def back(self, node: str, by: float) -> float:
        """When a node came back last; 0 where it had not been down by then."""
        return max((end for _, end in self.downs[node] if end <= by), default=0.0)

    @property
    def cuts(self) -> list[Mishap]:
        return [mishap for mishap in self.plan.mishaps if mishap.what == "partition"]

    def side(self, node: str, since: float, until: float) -> tuple[Mishap, Group] | None:
        """The partition that lasted all this time, and the node's group in it."""
        lasting = (cut for cut in self.cuts if cut.at <= since and until <= cut.until)
        return next(((cut, group) for cut in lasting for group in cut.groups if node in group), None)

    def minority(self, node: str, since: float, until: float) -> tuple[Mishap, Group] | None:
        """The same where the group is no majority."""
        found = self.side(node, since, until)
        return found if found and 2 * len(found[1]) <= len(self.names) else None

    def uncut_since(self, since: float, until: float) -> float | None:
        """From when on nothing was cut up to `until`: 0 if nothing ever was, None if something was in between."""
        if any(cut.at < until and since < cut.until for cut in self.cuts):
            return None
        return max((cut.until for cut in self.cuts if cut.until <= since), default=0.0)

    @property
    def whole_since(self) -> float:
        """From when on nothing befalls nodes and network any more."""
        return max([self.plan.healed or 0.0, *(mishap.until for mishap in self.plan.mishaps)])

    # ---- what was sent

    def between(self, since: float = -math.inf, until: float = math.inf) -> list[Sent]:
        """What nodes sent to each other, after `since` and up to `until`."""
        return [sent for sent in messages_between(self.story, self.names) if since < sent.sent <= until]

    def reached(self, node: str, since: float = -math.inf, until: float = math.inf) -> list[Sent]:
        """Messages of other nodes that arrived at `node` from `since` to `until`."""
        return [
            sent for sent in messages_between(self.story, self.names)
            if sent.dst == node and sent.fate == "delivered" and sent.arrived is not None
            and since <= sent.arrived <= until
        ]  # fmt: skip

    def heard(self, asked: Asked) -> set[str]:
        """Which other nodes a node had heard from between a request and its answer; all where there was none."""
        request, reply = asked.request, asked.reply
        if request is None or reply is None or request.arrived is None:
            return set(self.names)
        return {sent.src for sent in self.reached(asked.ask.node, request.arrived, reply.sent)}

    def strays(self, asked: Asked, since: float | None = None) -> list[Sent]:
        """What the node sent to this client without in_reply_to: perhaps meant as the answer."""
        return [
            sent for sent in self.story.sent
            if sent.src == asked.ask.node and sent.dst == asked.client and sent.body.get("in_reply_to") is None
            and sent.sent >= (asked.sent if since is None else since)
        ]  # fmt: skip

    def replies(self, client: str, fits: Callable[[Sent], bool]) -> list[Sent]:
        """What a client was told of which `fits` is true, as it came."""
        return [sent for sent in self.sim.answers if sent.dst == client and fits(sent)]

    # ---- what is wrong

    def mark(self, *shown: Asked | Sent | None) -> None:
        """Draw these messages in red; of a request both it and its answer."""
        for one in shown:
            messages = (one.request, one.reply) if isinstance(one, Asked) else (one,)
            self.story.marked |= {sent.number for sent in messages if sent is not None}

    def wrong(
        self, kind: Kind, message: str, *, title: str = "", shown: Sequence[Asked | Sent | None] = (),
        line: int | None = None, expected: str = "", got: str = "",
    ) -> Diagnosis:  # fmt: skip
        """What a judge returns, with the messages of `shown` marked. `line` is where the last of these was sent, unless
        told; with a title the picture tells the plan's label as well."""
        self.mark(*shown)
        if title:
            self.story.title, self.story.subtitle = title, self.plan.label
        told = [one.reply if isinstance(one, Asked) else one for one in shown if one is not None]
        if line is None and told and told[-1] is not None:
            line = told[-1].line
        return Diagnosis(kind, message, None, self.file, line, expected or None, got or None)


R = TypeVar("R", bound=Run)


def judging(
    view: Callable[[Played], R], *judges: Callable[[R], Diagnosis | None]
) -> Callable[[Played], Diagnosis | None]:
    """A judge of plans, as `NodeBench.hold` wants it: what the first of these finds wrong in the view of a run."""

    def judge(played: Played) -> Diagnosis | None:
        run = view(played)
        return next((found for one in judges if (found := one(run)) is not None), None)

    return judge


def served(story: Story) -> list[Served]:
    """Every request of a client, in order, also in the story of a schedule that the explorer found."""
    answers = {(sent.dst, sent.body.get("in_reply_to")): sent for sent in reversed(story.sent)}
    return [
        Served(
            sent.src, sent.dst, sent.body, math.inf if sent.arrived is None else sent.arrived,
            answers.get((sent.src, sent.body.get("msg_id"))),
        )
        for sent in story.sent
        if sent.src.startswith("c") and "msg_id" in sent.body and not sent.copy
    ]  # fmt: skip


def in_time(asked: Asked, seconds: float) -> bool:
    """Whether a request was answered within so many seconds."""
    return asked.seconds is not None and asked.seconds <= seconds


def same(one: Any, other: Any) -> bool:
    """Whether two values are the same JSON: 1 is not true, and not 1.0."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def answer_text(asked: Asked, most: int = 100) -> str:
    """An answer as a sentence quotes it: "error 11", "{"type": "write_ok"}"."""
    answer = asked.answer or {}
    if answer.get("type") == "error":
        return f"error {answer.get('code')}"
    return json.dumps({name: answer[name] for name in answer if name != "in_reply_to"})[:most]


def place(line: int | None) -> str:
    """ " (line 7)", "" where the line is not known."""
    return f" (line {line})" if line else ""
