"""No order at all: a transaction that does not get all its locks in a short, random time lets go and tries again."""

from __future__ import annotations

import json
from typing import Any
from zlib import crc32

from grader.nodes import Node


class TxnStore(Node):
    def on_start(self) -> None:
        self.members = sorted(self.peers + (self.id,))
        self.all: dict[str, Any] = self.disk.get("all", {"births": 0, "lists": {}, "held": {}, "won": {}, "past": []})
        self.all["births"] += 1
        self.keep()
        self.tries: dict[str, dict[str, Any]] = {}
        self.queue: dict[str, tuple[str, list[Any]]] = {}
        self.made = 0
        for txn in self.all["held"]:
            self.set_timer(f"doubt {txn}", 0.0)
        for txn in self.all["won"]:
            self.set_timer(f"won {txn}", 0.0)

    def keep(self) -> None:
        """The whole state in one write: there is nothing between two of them."""
        self.disk["all"] = self.all

    def on_message(self, src: str, body: dict[str, Any]) -> None:
        kind, txn = body["type"], body.get("id", "")
        if kind == "txn" and not body["txn"]:
            self.reply(body, {"type": "txn_ok", "txn": body["txn"]})
        elif kind == "txn":
            self.try_it(body, self.now() + 1.5)
        elif kind == "please":
            if txn not in self.all["past"] and txn not in self.all["held"]:
                self.queue[txn] = (src, body["ops"])
                self.serve()
            elif txn in self.all["held"]:
                self.yes(txn)
        elif kind == "yes":
            if txn in self.tries:
                self.tries[txn]["got"][src] = body["lists"]
                if len(self.tries[txn]["got"]) == len(self.tries[txn]["parts"]):
                    self.win(txn)
            else:
                self.send(src, {"type": "outcome", "id": txn, "won": txn in self.all["won"]})
        elif kind == "doubt" and txn not in self.tries:
            self.send(src, {"type": "outcome", "id": txn, "won": txn in self.all["won"]})
        elif kind == "outcome":
            self.outcome(src, txn, body["won"])
        elif kind == "thanks" and src in self.all["won"].get(txn, ()):
            self.all["won"][txn].remove(src)
            if not self.all["won"][txn]:
                del self.all["won"][txn]
            self.keep()

    def on_timer(self, name: str) -> None:
        what, _, txn = name.partition(" ")
        if what == "ask" and txn in self.tries:
            self.ask(txn)
        elif what == "enough" and txn in self.tries:
            mine = self.lose(txn)
            if self.now() > mine["until"]:
                self.reply(mine["body"], {"type": "error", "code": 30, "text": "could not get its locks"})
            else:
                self.made += 1
                self.set_timer(f"again {self.made}", self.random.uniform(0.0, 0.1))
                self.tries[f"again {self.made}"] = mine
        elif what == "again":
            mine = self.tries.pop(name)
            self.try_it(mine["body"], mine["until"])
        elif what == "doubt" and txn in self.all["held"]:
            self.send(self.all["held"][txn][0], {"type": "doubt", "id": txn})
            self.set_timer(name, 0.2)
        elif what == "won" and txn in self.all["won"]:
            for node in self.all["won"][txn]:
                self.send(node, {"type": "outcome", "id": txn, "won": True})
            self.set_timer(name, 0.2)

    def try_it(self, body: dict[str, Any], until: float) -> None:
        self.made += 1
        txn = f"{self.id}/{self.all['births']}/{self.made}"
        parts: dict[str, list[Any]] = {}
        for op in body["txn"]:
            parts.setdefault(self.members[crc32(f"{op[1]}".encode()) % len(self.members)], []).append(op)
        self.tries[txn] = {"body": body, "until": until, "parts": parts, "got": {}}
        self.set_timer(f"enough {txn}", self.random.uniform(0.25, 0.45))
        self.ask(txn)

    def ask(self, txn: str) -> None:
        mine = self.tries[txn]
        for node, ops in mine["parts"].items():
            if node not in mine["got"]:
                self.send(node, {"type": "please", "id": txn, "ops": ops})
        self.set_timer(f"ask {txn}", 0.12)

    def lose(self, txn: str) -> dict[str, Any]:
        mine = self.tries.pop(txn)
        for node in mine["parts"]:
            self.send(node, {"type": "outcome", "id": txn, "won": False})
        return mine

    def win(self, txn: str) -> None:
        mine = self.tries.pop(txn)
        self.all["won"][txn] = list(mine["parts"])
        self.keep()
        now: dict[str, list[int]] = {}
        for lists in mine["got"].values():
            now.update(lists)
        told = []
        for f, key, value in mine["body"]["txn"]:
            if f == "append":
                now[repr(key)] = now[repr(key)] + [value]
            told.append([f, key, value if f == "append" else now[repr(key)]])
        self.reply(mine["body"], {"type": "txn_ok", "txn": told})
        self.set_timer(f"won {txn}", 0.0)

    def serve(self) -> None:
        for txn, (src, ops) in list(self.queue.items()):
            held = [op for _, others in self.all["held"].values() for op in others]
            if any(op[1] == other[1] and (op[0], other[0]) != ("r", "r") for op in ops for other in held):
                continue
            del self.queue[txn]
            self.all["held"][txn] = [src, ops]
            self.keep()
            self.yes(txn)
            self.set_timer(f"doubt {txn}", 0.2)

    def yes(self, txn: str) -> None:
        src, ops = self.all["held"][txn]
        lists = {repr(op[1]): self.all["lists"].get(repr(op[1]), []) for op in ops}
        self.send(src, {"type": "yes", "id": txn, "lists": lists})

    def outcome(self, src: str, txn: str, won: bool) -> None:
        self.queue.pop(txn, None)
        if txn in self.all["held"]:
            _, ops = self.all["held"].pop(txn)
            for f, key, value in ops:
                if won and f == "append":
                    self.all["lists"].setdefault(repr(key), []).append(value)
            self.all["past"].append(txn)
            self.keep()
            self.serve()
        if won:
            self.send(src, {"type": "thanks", "id": txn})
