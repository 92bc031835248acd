"""Transfers across shards: two-phase commit with a log, and locks that also hold readers back.

    run = transfers([transfer(1, "alice", "bob")], faults=[crash(0.05, 1.0, "coord")])
    accounts(run), transacted.of_run(run)

Accounts are lists of transfers, so a transfer is a transaction of two appends. One coordinator takes all transactions,
a shard refuses what it would have to wait for, and a client's transaction is never sent twice: the exercise
`serializable_store` asks for more. `loose` reads take no locks, and an unforced decision is not in the coordinator's
log: both are mistakes to look at.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from courselib.cluster import Run, cluster
from grader.nodes.network import Network
from grader.nodes.node import Node
from grader.nodes.plan import Mishap
from grader.nodes.sim import Member

HOLDS = {"alice": "s1", "bob": "s2"}
Ask = tuple[Any, ...]  # (the node, the body, seconds)


class Coordinator(Node):
    """Its log has the transactions that committed: what is not in it was aborted (presumed abort)."""

    forced, loose, patience = True, False, 0.4

    def on_start(self) -> None:
        self.life = self.disk["life"] = self.disk.get("life", 0) + 1
        self.numbers = 0
        self.open: dict[str, dict[str, Any]] = {}  # asked, and not decided
        self.committed: dict[str, list[str]] = self.disk.get("committed", {})  # who has not confirmed yet
        self.set_timer("again", self.patience)

    def on_message(self, src: str, body: dict[str, Any]) -> None:
        match body["type"]:
            case "txn":
                self._begin(body)
            case "vote" if body["id"] in self.open:
                self._vote(src, body)
            case "done" if body["id"] in self.committed:
                self.committed[body["id"]] = [each for each in self.committed[body["id"]] if each != src]
            case "how?" if body["id"] not in self.open:
                self.send(src, {"type": "commit" if body["id"] in self.committed else "abort", "id": body["id"]})

    def _begin(self, request: dict[str, Any]) -> None:
        self.numbers += 1
        number, ops = f"{self.life}.{self.numbers}", request["txn"]
        shards = sorted({HOLDS[key] for _, key, _ in ops})
        self.open[number] = {"request": request, "left": shards, "shards": shards, "reads": {}}
        lone = self.loose and all(f == "r" for f, _, _ in ops)
        for shard in shards:
            mine = [op for op in ops if HOLDS[op[1]] == shard]
            self.send(shard, {"type": "look" if lone else "prepare", "id": number, "ops": mine})
        self.set_timer(number, self.patience)

    def _vote(self, src: str, body: dict[str, Any]) -> None:
        told = self.open[body["id"]]
        if not body["yes"]:
            self._decide(body["id"], False)
            return
        told["left"] = [each for each in told["left"] if each != src]
        told["reads"].update(body["reads"])
        if not told["left"]:
            self._decide(body["id"], True)

    def _decide(self, number: str, commit: bool) -> None:
        told = self.open.pop(number)
        self.cancel_timer(number)
        if commit:
            self.committed[number] = told["shards"]
            if self.forced:  # the commit point
                self.disk["committed"] = self.committed
        for shard in told["shards"]:
            self.send(shard, {"type": "commit" if commit else "abort", "id": number})
        if commit:
            seen = [[f, key, told["reads"].get(key, []) if f == "r" else value]
                    for f, key, value in told["request"]["txn"]]  # fmt: skip
            self.reply(told["request"], {"type": "txn_ok", "txn": seen})
        else:
            self.reply(told["request"], {"type": "error", "code": 30, "text": "conflict, or a shard does not answer"})

    def on_timer(self, name: str) -> None:
        if name in self.open:
            self._decide(name, False)
        elif name == "again":
            for number, shards in self.committed.items():
                for shard in shards:
                    self.send(shard, {"type": "commit", "id": number})
            self.set_timer("again", self.patience)


class Shard(Node):
    """On its disk, in one write: the accounts, and what it has promised. A promise locks its keys."""

    patience = 0.3

    def on_start(self) -> None:
        self.state = self.disk.get("state", {"data": {}, "promised": {}})
        self.set_timer("doubt", self.patience)

    def on_message(self, src: str, body: dict[str, Any]) -> None:
        match body["type"]:
            case "look":
                self.send(src, {"type": "vote", "id": body["id"], "yes": True, "reads": self._reads(body["ops"])})
            case "prepare":
                yes = body["id"] in self.state["promised"] or self._free(body["ops"])
                if yes:
                    self.state["promised"][body["id"]] = body["ops"]
                    self.disk["state"] = self.state
                self.send(src, {"type": "vote", "id": body["id"], "yes": yes, "reads": self._reads(body["ops"])})
            case "commit" | "abort" as outcome:
                ops = self.state["promised"].pop(body["id"], [])
                for f, key, value in ops if outcome == "commit" else ():
                    if f == "append":
                        self.state["data"].setdefault(key, []).append(value)
                if ops:
                    self.disk["state"] = self.state
                self.send(src, {"type": "done", "id": body["id"]})

    def _free(self, ops: Sequence[Sequence[Any]]) -> bool:
        """Whether nothing that was promised is in the way: readers share, writers do not."""
        taken = [(f, key) for promised in self.state["promised"].values() for f, key, _ in promised]
        return not any(key == other and "append" in (f, g) for f, key, _ in ops for g, other in taken)

    def _reads(self, ops: Sequence[Sequence[Any]]) -> dict[str, list[Any]]:
        return {key: self.state["data"].get(key, []) for f, key, _ in ops if f == "r"}

    def on_timer(self, name: str) -> None:
        for number in self.state["promised"]:
            self.send("coord", {"type": "how?", "id": number})
        self.set_timer("doubt", self.patience)


def transfer(number: int, source: str, target: str) -> list[list[Any]]:
    """A transaction that moves money: the source's list gets -number, the target's +number."""
    return [["append", source, -number], ["append", target, number]]


LOOK = [["r", "alice", None], ["r", "bob", None]]


def transfers(
    asks: dict[str, list[tuple[float, list[list[Any]]]]], faults: Sequence[Mishap] = (), until: float = 6.0,
    network: Network | None = None, seed: int = 1, **settings: Any,
) -> Run:  # fmt: skip
    """Clients ask the coordinator for transactions, each (seconds after the answer before, operations)."""
    members = [Member("coord", "Coordinator", (), dict(settings)), *(Member(s, "Shard") for s in ("s1", "s2"))]
    wanted = {who: [("coord", {"type": "txn", "txn": ops}, after) for after, ops in some] for who, some in asks.items()}
    kinds: dict[str, type[Node]] = {"Coordinator": Coordinator, "Shard": Shard}
    return cluster(kinds, members, wanted, faults, until, seed=seed, network=network or Network(0.02, 0.02))


def accounts(run: Run) -> dict[str, list[int]]:
    """What is on the shards' disks at the end."""
    found: dict[str, list[int]] = {}
    for name in ("s1", "s2"):
        state = json.loads(run.sim.places[name].disk.get("state", '{"data": {}}'))
        found.update(state["data"])
    return found


def halves(run: Run) -> list[int]:
    """Transfers of which one account has its half, and the other one does not."""
    found = accounts(run)
    alice, bob = ({abs(each) for each in found.get(name, [])} for name in ("alice", "bob"))
    return sorted(alice ^ bob)
