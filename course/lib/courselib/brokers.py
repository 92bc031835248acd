"""A log on brokers, as message-passing nodes: followers fetch, a controller appoints leaders out of the in-sync set.

Requests are those of Maelstrom's kafka workload: send, poll, commit_offsets, list_committed_offsets. Every node takes
them, and passes them on to the leader. The last node is the controller and keeps no log: if it dies, none is appointed
(Kafka's controllers are several, and agree by Raft). `acks`, `min_isr` and `unclean` are Kafka's acks,
min.insync.replicas and unclean.leader.election.enable. A crash keeps the log. One partition holds all keys, so the
offsets of a key have gaps.
"""

from __future__ import annotations

import json
from typing import Any

from courselib.cluster import Run
from courselib.isr import Row, drawn
from courselib.svg import Plot
from grader.nodes.histories import log_requests, log_words
from grader.nodes.histories import logs as judge
from grader.nodes.node import Node

Entry = list[Any]  # the epoch, the key (None: committed offsets), the message


class Broker(Node):
    """`fetches`, `lag`, `dead`: seconds between two fetches, until a follower leaves the ISR, and until a leader is
    taken for dead."""

    acks: str = "all"
    min_isr = 2
    unclean = False
    fetches, lag, dead = 0.1, 0.4, 0.35

    def on_start(self) -> None:
        *self.replicas, self.controller = sorted([self.id, *self.peers])
        self.log: list[Entry] = self.disk.get("log", [])
        self.rules: dict[str, Any] = self.disk.get("rules", {"epoch": 0, "leader": "", "isr": []})
        if self.id != self.controller:
            self.rules = {**self.rules, "leader": ""}  # who leads now is for the controller to say
        self.high = 0
        self.ends: dict[str, int] = {}  # how much of our log each follower has
        self.caught: dict[str, float] = {}  # when it had all of it
        self.seen: dict[str, float] = {}  # at the controller: the last sign of life
        self.waiting: dict[int, dict[str, Any]] = {}  # offset: who waits until it is below the high watermark
        self.number, self.passed = 0, dict[int, dict[str, Any]]()
        if self.id == self.controller and not self.rules["epoch"]:
            self._appoint(self.replicas[0], self.replicas)
        self.set_timer("fetch", self.fetches)

    @property
    def leads(self) -> bool:
        return bool(self.rules["leader"] == self.id)

    # ---- requests

    def on_message(self, src: str, body: dict[str, Any]) -> None:
        match body["type"]:
            case "send" | "poll" | "commit_offsets" | "list_committed_offsets":
                self._take(body, body)
            case "pass" if self.leads:
                self._take(body, body["request"])
            case "passed":
                if (request := self.passed.pop(body["number"], None)) is not None:
                    self.reply(request, body["answer"])
            case "fetch" if self.leads:
                self._serve(src, body)
            case "entries" if body["epoch"] == self.rules["epoch"]:
                self.log = self.log[: body["from"]] + body["entries"]
                self.high = min(body["high"], len(self.log))
                self._keep()
            case "alive" | "in sync":
                self._hear(src, body)
            case "rules" if body["rules"]["epoch"] >= self.rules["epoch"]:
                self._obey(body["rules"])

    def _take(self, to: dict[str, Any], request: dict[str, Any]) -> None:
        if not self.leads:
            if self.rules["leader"]:
                self.number += 1
                self.passed[self.number] = to
                self.send(self.rules["leader"], {"type": "pass", "number": self.number, "request": request})
            return
        match request["type"]:
            case "send":
                self._append(to, [self.rules["epoch"], request["key"], request["msg"]], self.acks)
            case "commit_offsets":
                self._append(to, [self.rules["epoch"], None, request["offsets"]], "all")
            case "poll":
                self._answer(to, {"type": "poll_ok", "msgs": {key: self._from(key, since) for key, since in
                                                              request["offsets"].items()}})  # fmt: skip
            case _:
                done = self._committed()
                found = {key: done[key] for key in request["keys"] if key in done}
                self._answer(to, {"type": "list_committed_offsets_ok", "offsets": found})

    def _append(self, to: dict[str, Any], entry: Entry, acks: str) -> None:
        if acks == "all" and len(self.rules["isr"]) < self.min_isr:
            self._answer(to, {"type": "error", "code": 11, "text": "not enough replicas in sync"})
            return
        self.log.append(entry)
        self._keep()
        answer = {"type": "send_ok", "offset": len(self.log) - 1} if entry[1] else {"type": "commit_offsets_ok"}
        if acks == "all":
            self.waiting[len(self.log) - 1] = {"to": to, "answer": answer}
            self._advance()
        else:
            self._answer(to, answer)

    def _answer(self, to: dict[str, Any], answer: dict[str, Any]) -> None:
        if to["type"] == "pass":
            self.send(to.src, {"type": "passed", "number": to["number"], "answer": answer})  # type: ignore[attr-defined]
        else:
            self.reply(to, answer)

    def _from(self, key: str, since: int) -> list[list[Any]]:
        return [[at, e[2]] for at, e in enumerate(self.log[: self.high]) if e[1] == key and at >= since]

    def _committed(self) -> dict[str, int]:
        done: dict[str, int] = {}
        for _, key, offsets in self.log[: self.high]:
            for name, offset in offsets.items() if key is None else ():
                done[name] = max(done.get(name, 0), offset)
        return done

    # ---- followers and the high watermark

    def on_timer(self, name: str) -> None:
        self.set_timer("fetch", self.fetches)
        if self.id == self.controller:
            self._look()
        else:
            self.send(self.controller, {"type": "alive", "epoch": self.rules["epoch"]})
        if self.leads:
            slow = [each for each in self.rules["isr"] if each != self.id and self.now() - self.caught[each] > self.lag]
            if slow:
                isr = [each for each in self.rules["isr"] if each not in slow]
                self._propose(isr)
        elif self.rules["leader"] and self.id != self.controller:
            self.send(self.rules["leader"], {"type": "fetch", "have": [entry[0] for entry in self.log]})

    def _serve(self, src: str, body: dict[str, Any]) -> None:
        mine = [entry[0] for entry in self.log]
        same = next((at for at, (a, b) in enumerate(zip(mine, body["have"], strict=False)) if a != b),
                    min(len(mine), len(body["have"])))  # fmt: skip
        self.ends[src] = same
        if same == len(mine):
            self.caught[src] = self.now()
            if src not in self.rules["isr"]:
                self._propose(sorted([*self.rules["isr"], src]))
        self._advance()
        self.send(src, {"type": "entries", "epoch": self.rules["epoch"], "from": same, "entries": self.log[same:],
                        "high": self.high})  # fmt: skip

    def _advance(self) -> None:
        if len(self.rules["isr"]) >= self.min_isr:
            ends = [len(self.log) if each == self.id else self.ends.get(each, 0) for each in self.rules["isr"]]
            self.high = max(self.high, min(ends))
        for offset in [each for each in self.waiting if each < self.high]:
            told = self.waiting.pop(offset)
            self._answer(told["to"], told["answer"])

    # ---- the controller

    def _propose(self, isr: list[str]) -> None:
        """Nothing changes before the controller says so."""
        self.send(self.controller, {"type": "in sync", "epoch": self.rules["epoch"], "isr": isr})

    def _hear(self, src: str, body: dict[str, Any]) -> None:
        self.seen[src] = self.now()
        if body["type"] == "in sync" and body["epoch"] == self.rules["epoch"] and src == self.rules["leader"]:
            self._appoint(self.rules["leader"], body["isr"], self.rules["epoch"])
        else:
            self.send(src, {"type": "rules", "rules": self.rules})

    def _look(self) -> None:
        """Is the leader alive? If not, the first of the ISR that is alive leads from now on."""
        leader = self.rules["leader"]
        alive = [each for each in self.rules["isr"] if self._lives(each)]
        if self.unclean and not alive:
            alive = [each for each in self.replicas if self._lives(each)][:1]
        if leader in alive or not alive:
            return
        self._appoint(alive[0], alive)

    def _lives(self, node: str) -> bool:
        return self.now() - self.seen.setdefault(node, self.now()) < self.dead

    def _appoint(self, leader: str, isr: list[str], epoch: int | None = None) -> None:
        rules = {"epoch": self.rules["epoch"] + 1 if epoch is None else epoch, "leader": leader, "isr": isr}
        for peer in self.peers:
            self.send(peer, {"type": "rules", "rules": rules})
        self._obey(rules)

    def _obey(self, rules: dict[str, Any]) -> None:
        new = rules["epoch"] > self.rules["epoch"]
        self.rules = self.disk["rules"] = dict(rules)
        if new:
            self.ends, self.waiting = {}, {}
        for each in self.rules["isr"]:
            if new or each not in self.caught:
                self.caught[each] = self.now()
        if self.leads:
            self._advance()

    def _keep(self) -> None:
        self.disk["log"] = self.log


def logs(run: Run) -> dict[str, list[Any]]:
    """The messages in each broker's log at the end."""
    disks = {name: json.loads(place.disk.get("log", "[]")) for name, place in sorted(run.sim.places.items())}
    return {name: [msg for _, key, msg in log if key is not None] for name, log in list(disks.items())[:-1]}


def sends(run: Run) -> dict[str, list[Any]]:
    """Messages by what their client heard: "acknowledged", "refused", or "no answer"."""
    found: dict[str, list[Any]] = {"acknowledged": [], "refused": [], "no answer": []}
    done = sorted((asked for client in run.played.clients.values() for asked in client.done), key=lambda a: a.sent)
    for asked in done:
        if asked.ask.body["type"] == "send":
            kind = (asked.answer or {}).get("type")
            found["acknowledged" if kind == "send_ok" else "refused" if kind else "no answer"].append(
                asked.ask.body["msg"]
            )
    return found


def polled(run: Run) -> list[Any]:
    """The messages of the last poll that was answered."""
    polls = [asked for client in run.played.clients.values() for asked in client.done
             if asked.ask.body["type"] == "poll" and (asked.answer or {}).get("type") == "poll_ok"]  # fmt: skip
    last = max(polls, key=lambda asked: asked.sent, default=None)
    return [msg for each in last.answer["msgs"].values() for _, msg in each] if last and last.answer else []


def lost(run: Run) -> list[Any]:
    """Messages that were acknowledged, and that the last poll did not return."""
    found = polled(run)
    return [msg for msg in sends(run)["acknowledged"] if msg not in found]


def ends(run: Run, title: str) -> Plot:
    """What the producers were told, and the brokers' logs at the end. Acknowledged messages that are lost are red."""
    gone, down = lost(run), [name for name, place in run.sim.places.items() if not place.up]
    rows = [Row("told: stored", sends(run)["acknowledged"])]
    rows += [Row(name, messages, "down" * (name in down), name in down) for name, messages in logs(run).items()]
    return drawn(title, rows, len(polled(run)), gone)


def findings(run: Run) -> list[str]:
    """What is wrong with what the clients saw, in sentences, by the judge of the kafka workload."""
    done = [asked for client in run.played.clients.values() for asked in client.done]
    seen = [log_requests.operation(a.ask.body, a.answer, a.sent, a.answered, f"{a.client} at {a.sent:.2f} s")
            for a in done]  # fmt: skip
    operations = [one for one in seen if one is not None and not isinstance(one, log_requests.Malformed)]
    last = max((one for one in operations if isinstance(one, judge.Poll)), key=lambda one: one.begin, default=None)
    found = judge.findings(operations, {"consumer": [last]} if last else {})
    return [log_words.sentence(one, lambda operation: f"{type(operation).__name__.lower()} by {operation.tag}")
            for one in found]  # fmt: skip
