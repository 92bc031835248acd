"""A run of log nodes with a script, and what scripts do again and again: ask, wait for an answer that is due, read logs as
consumers do. Nothing is known of how nodes agree: who spreads a message is seen by the messages that hold it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from grader.exercises.common.scenes import ARRIVED, SLOW, Rule, Script, Staged, carries, has_answer, ok
from grader.nodes.bench import NodeBench
from grader.nodes.clients import Asked
from grader.nodes.life import Step
from grader.nodes.plan import Played
from grader.nodes.runs import answer_text
from grader.says import at, listed
from grader.trace.story import Sent

TAKEN_OVER = 3.0  # seconds after which a majority that can talk serves
PROMPT = 2.0  # seconds in which it answers
AGREED = 5.0  # seconds after which all nodes show what was acknowledged, when all is whole
MOST_POLLS = 60  # of one consumer
NONE_IN_A_ROW = 3  # answers without a message, after which a consumer has read a log to its end
KEY = "k"
FRESH = "message-"  # how messages begin that scripts make up

Shape = tuple[str, frozenset[str]]


class Logs(Staged):
    """A cluster, its clients, and `final`: by node, the polls of a consumer that read all keys when all was whole."""

    def __init__(self, played: Played, bench: NodeBench) -> None:
        super().__init__(played, bench)
        self.final: dict[str, list[Asked]] = {}
        self._count = 0

    @property
    def asked(self) -> list[Asked]:
        """All requests, as they began."""
        clients = (*self.played.clients.values(), *self.clients)
        return sorted((one for client in clients for one in client.done), key=lambda one: one.sent)

    # ---- requests

    def fresh(self) -> str:
        """A message that no other one holds."""
        self._count += 1
        return f"{FRESH}{self._count}-{self.rng.randrange(16**4):04x}"

    def send(self, node: str, message: Any = None, key: str = KEY) -> Asked:
        message = self.fresh() if message is None else message
        return self.request(node, {"type": "send", "key": key, "msg": message})

    def poll(self, node: str, offsets: Mapping[str, int] | None = None) -> Asked:
        return self.request(node, {"type": "poll", "offsets": {KEY: 0} if offsets is None else dict(offsets)})

    def commit(self, node: str, offset: int, key: str = KEY) -> Asked:
        return self.request(node, {"type": "commit_offsets", "offsets": {key: offset}})

    def list(self, node: str, *keys: str) -> Asked:
        return self.request(node, {"type": "list_committed_offsets", "keys": [*(keys or (KEY,))]})

    def served(self, *asked: Asked) -> Script:
        """Wait for answers that are due: a majority that can talk serves within 2 s. Raises Stuck."""
        for one in asked:
            yield has_answer(one), max(0.0, one.sent + PROMPT - self.sim.time)
            if not ok(one):
                raise self.unserved(one)

    def served_later(self, *nodes: str) -> Script:
        """These are a majority that can talk, from now on; in 3 s each of them serves."""
        yield from self.pause(TAKEN_OVER)
        yield from self.served(*(self.send(name) for name in nodes))

    def unserved(self, one: Asked) -> Exception:
        got = "not answered within 2 s" if one.answer is None else f"answered with {answer_text(one)}"
        stray = next(
            (m for m in self.sim.story.sent if m.src == one.ask.node and m.dst == one.client and m.sent >= one.sent
             and m.body.get("in_reply_to") is None), None,
        )  # fmt: skip
        if one.request is not None:
            self.sim.story.marked.add(one.request.number)
        self.sim.story.title = "Not served"
        text = (
            f"The {told(one)} was sent at {at(one.sent)} and {got}. {self._who_was_there(one)} Every request to such "
            "a node must be answered with ok within 2 s."
        )
        if stray is not None:
            text += f" {one.ask.node} sent {stray.type} without in_reply_to: answer with reply(request, body)."
        elif one.answer is None:
            text += self._why_silent(one)
        return self.stuck(text, f"{one.ask.body['type']}_ok within 2 s", got)

    def _who_was_there(self, one: Asked) -> str:
        up = [name for name in self.names if self.sim.places[name].up]
        there = [name for name in up if name == one.ask.node or not self.sim.is_cut(name, one.ask.node)]
        if len(there) == len(self.names):
            return f"All {len(there)} nodes were up and connected for at least 3 s before it."
        return f"{listed(there)}, {len(there)} of {len(self.names)} nodes, were up and connected for at least 3 s before it."

    def _why_silent(self, one: Asked) -> str:
        """What the messages show of a request without an answer."""
        between = [m for m in self.sim.story.sent if m.src in self.names and m.dst in self.names and m.sent >= one.sent]
        message = one.ask.body.get("msg")
        text = message if isinstance(message, str) else ""  # of others it is not known which messages hold them
        holding = [m for m in between if text and carries(m, text) and m.src == one.ask.node]
        if len(holding) == 1 and holding[0].fate in ("lost", "dropped"):
            return (
                f" The message of {one.ask.node} to {holding[0].dst} that held it was lost, and {one.ask.node} did not "
                "send it again. Clients do not retry, so a node must go on with a request until it is done."
            )
        since = [m for m in self.sim.story.sent if m.src == one.ask.node and m.dst in self.names and m.sent >= one.sent]
        gone = [m for m in since if m.fate in ("cut", "lost") and m.dst != one.ask.node]
        if not since:
            return f" {one.ask.node} sent no other node a message after it."
        if gone and len(gone) == len(since):
            return (
                f" {one.ask.node} sent messages only to {listed(sorted({m.dst for m in gone}))}, where none could "
                "arrive. Send the request again to the node that leads then: clients do not retry."
            )
        had = {one.ask.node} | {m.dst for m in between if text and m.fate == "delivered" and carries(m, text)}
        away = [name for name in self.names if not self.sim.places[name].up or self.sim.is_cut(name, one.ask.node)]
        if away and 2 * len(had) > len(self.names):
            return (
                f" {listed(sorted(had))} had got it, which is a majority. Check that they take it into their logs, and that "
                f"no node waits for {listed(away, 'or')}."
            )
        why = self._had_an_equal(one) or self._restarted(one)
        return f"{why} Clients do not retry, so a node must go on with a request until it is done."

    def _restarted(self, one: Asked) -> str:
        """What to check where the node that was asked had crashed before."""
        back = [
            e.at for e in self.sim.story.events if (e.what, e.node) == ("restart", one.ask.node) and e.at <= one.sent
        ]
        if not back:
            return ""
        return (
            f" {one.ask.node} had restarted at {at(back[-1])}. If nodes name requests, check that it gives none a name that "
            "it gave before the crash."
        )

    def _had_an_equal(self, one: Asked) -> str:
        """In words, if an equal request was answered before, and none that came after that answer was."""
        body = json.dumps(one.ask.body)
        equal = [other for other in self.asked if json.dumps(other.ask.body) == body and other.sent <= one.sent]
        ends = sorted(other.answered for other in equal if other.answered is not None)
        if not ends or one.sent < ends[0] or any(other.answered and other.sent >= ends[0] for other in equal):
            return ""
        first = next(other for other in equal if other.answered == ends[0])
        return (
            f" {first.client} had sent an equal request to {first.ask.node} at {at(first.sent)}, and got its answer at "
            f"{at(ends[0])}. Two requests that say the same are still two: if nodes name requests, the names must differ."
        )

    # ---- who does what

    def spreader(self, message: str, default: str) -> str:
        """The node that sent messages which hold this to the most others: where one leads, the leader."""
        told: dict[str, set[str]] = {}
        for sent in self.sim.story.sent:
            if sent.src in self.names and sent.dst in self.names and carries(sent, message):
                told.setdefault(sent.src, set()).add(sent.dst)
        return max(told, key=lambda name: len(told[name]), default=default)

    def spreading(self, node: str) -> set[Shape]:
        """The shapes of messages in which this node has told all others what a client sent: where one leads, those in
        which a leader speaks to those who follow it."""
        told: dict[Shape, set[str]] = {}
        for sent in self.sim.story.sent:
            if sent.src == node and sent.dst in self.names and holds_a_message(sent):
                told.setdefault(shape(sent), set()).add(sent.dst)
        return {each for each, nodes in told.items() if len(nodes - {node}) == len(self.names) - 1}

    def led(self) -> Script:
        """Wait until the cluster serves, and send something, which all get: (who spread it, the others)."""
        yield from self.pause(max(0.0, TAKEN_OVER - self.sim.time))
        node, message = self.rng.choice(self.names), self.fresh()
        yield from self.served(self.send(node, message))
        yield from self.pause(ARRIVED)
        hub = self.spreader(message, node)
        return hub, self.others(hub)

    def sent_in_silence(self, hub: str, node: str, message: str) -> Script:
        """Send a message to a node while no other node's word reaches `hub`, from before on until the message has arrived:
        no answer to an earlier message comes after it. Returns the request."""
        self.dropped["before"] = lambda sent: (
            sent.dst == hub and sent.src != hub and sent.src in self.names and not carries(sent, message)
        )
        yield from self.pause(SLOW)
        asked = self.send(node, message)
        yield from self.pause(SLOW)
        del self.dropped["before"]
        return asked

    def reached(self, message: str) -> set[str]:
        """Other nodes at which a message that holds this has arrived."""
        return {
            sent.dst for sent in self.sim.story.sent
            if sent.src in self.names and sent.dst in self.names and sent.fate == "delivered" and carries(sent, message)
        }  # fmt: skip

    def answering(self, message: Sent) -> bool:
        """Whether this is sent in the step that handles a message from whom it is for."""
        now, src, dst = self.sim.time, message.dst, message.src
        for sent in reversed(self.sim.story.sent[-300:]):
            if sent.arrived == now and sent.src == src and sent.dst == dst:
                return True
        return False

    def speaks_first(self, nodes: Sequence[str], message: Sent) -> bool:
        """Whether one of these nodes sends another node something without having been spoken to."""
        return message.src in nodes and message.dst in self.names and not self.answering(message)

    def holding(self, message: str, *dst: str) -> Rule:
        """Messages between nodes that hold this; with `dst`, to these nodes only."""
        return lambda sent: carries(sent, message) and (not dst or sent.dst in dst)

    # ---- faults

    def gone(self, *nodes: str) -> Script:
        """These nodes crash, and what they had sent just before is lost."""
        self.cut(nodes, [name for name in self.names if name not in nodes])
        for node in nodes:
            self.sim.crash(node)
        yield from self.pause(ARRIVED)
        self.sim.heal()

    def crash_with_answer(self, *asked: Asked) -> Callable[[], None]:
        """Crash the asked node in the step in which it answers ok; what it sends in this step is lost. Of several requests
        it is the node that answers first. Returns how to take that back."""
        kinds = {one.ask.node: f'"{one.ask.body["type"]}_ok"' for one in asked}
        clients = {one.client for one in asked}
        waits = True

        def look(name: str, step: Step) -> None:
            if not waits or name not in kinds:
                return
            if any(e[0] == "send" and e[1] in clients and kinds[name] in e[2] for e in step.effects):
                self.cut((name,), [other for other in self.names if other != name])
                self.sim.crash(name)
                off()

        def off() -> None:
            nonlocal waits
            waits = False

        self.sim.on_step.append(look)
        return off

    # ---- consumers

    def consume(self, nodes: Iterable[str], keys: Iterable[str] = (KEY,), final: bool = False) -> Script:
        """Read these logs as consumers do, one at each node, all at once: a consumer's next poll goes on after the last
        offset that the one before it returned, until there is no more. Each poll must be answered."""
        since = {node: dict.fromkeys(keys, 0) for node in nodes}
        polls: dict[str, list[Asked]] = {node: [] for node in since}
        empty = dict.fromkeys(since, 0)  # answers in a row that brought a consumer no further
        if final:
            self.final = polls
        while reading := [n for n in since if empty[n] < NONE_IN_A_ROW and len(polls[n]) < MOST_POLLS]:
            for node in reading:
                polls[node].append(self.poll(node, since[node]))
            yield from self.served(*(polls[node][-1] for node in reading))
            for node in reading:
                before = dict(since[node])
                for key, pairs in _msgs(polls[node][-1]).items():
                    if key in before and pairs:
                        since[node][key] = max(before[key], pairs[-1][0] + 1)
                empty[node] = empty[node] + 1 if since[node] == before else 0
            if any(empty.values()):
                yield from self.pause(0.1)

    def ended(self, keys: Iterable[str] = (KEY,)) -> Script:
        """All is whole; 5 s later each node is read to the end."""
        self.dropped.clear()
        for name in list(self.held):
            self.let_go(name)
        self.whole()
        yield from self.pause(AGREED)
        yield from self.consume(self.names, keys, final=True)


def _msgs(asked: Asked) -> dict[str, list[list[Any]]]:
    """What a poll returned, as far as it is of the right shape: what is not is told elsewhere."""
    msgs = (asked.answer or {}).get("msgs")
    if not isinstance(msgs, dict):
        return {}
    return {
        key: pairs for key, pairs in msgs.items()
        if isinstance(pairs, list) and all(isinstance(p, list) and len(p) == 2 and type(p[0]) is int for p in pairs)
    }  # fmt: skip


def shape(sent: Sent) -> Shape:
    """What kind of message this is: by its type, and by the fields that it has."""
    return sent.type, frozenset(sent.body)


def holds_a_message(sent: Sent) -> bool:
    """Whether it holds something that a script had a client send, see `Logs.fresh`."""
    return carries(sent, FRESH)


def told(asked: Asked) -> str:
    """ "send of "a" to key "k" by c1 at n2"."""
    body = asked.ask.body
    match body["type"]:
        case "send":
            what = f"send of {_short(body['msg'])} to key {_short(body['key'])}"
        case "poll":
            what = "poll of " + (
                ", ".join(f"{_short(key)} from {o}" for key, o in body["offsets"].items()) or "nothing"
            )
        case "commit_offsets":
            what = "commit of " + (
                ", ".join(f"{o} for {_short(key)}" for key, o in body["offsets"].items()) or "nothing"
            )
        case _:
            what = "list of committed offsets of " + (", ".join(map(_short, body["keys"])) or "nothing")
    return f"{what} by {asked.client} at {asked.ask.node}"


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else text[:40] + "..."
