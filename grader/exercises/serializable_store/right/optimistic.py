"""Optimistic: read versions without locks, then have every owner check that nothing has changed, and lock only then."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

from grader.nodes import Node

Key = int | str
TRY_FOR = 1.4
RESEND = 0.15


@dataclass
class Attempt:
    request: dict[str, Any]
    until: float
    parts: dict[str, list[Key]]
    stage: str = "read"
    seen: dict[str, dict[str, list[int]]] = field(default_factory=dict)  # by owner, by key: the list
    votes: set[str] = field(default_factory=set)

    @property
    def writes(self) -> bool:
        return any(f == "append" for f, _, _ in self.request["txn"])


class TxnStore(Node):
    def on_start(self) -> None:
        self.ring = sorted([*self.peers, self.id])
        self.era = self.disk.get("era", 0) + 1
        self.disk["era"] = self.era
        self.serial = 0
        self.attempts: dict[str, Attempt] = {}
        self.lists: dict[str, list[int]] = self.disk.get("lists", {})
        self.prepared: dict[str, dict[str, Any]] = self.disk.get("prepared", {})
        self.decided: dict[str, list[str]] = self.disk.get("decided", {})
        self.applied: dict[str, bool] = self.disk.get("applied", {})
        self.set_timer("tick", RESEND)

    def home(self, key: Key) -> str:
        return self.ring[crc32(str(key).encode()) % len(self.ring)]

    def on_message(self, src: str, body: dict[str, Any]) -> None:
        match body["type"]:
            case "txn":
                if body["txn"]:
                    self.start(body, self.now() + TRY_FOR)
                else:
                    self.reply(body, {"type": "txn_ok", "txn": []})
            case "look":
                lists, busy = self.look(body["keys"], body["id"])
                self.send(src, {"type": "looked", "id": body["id"], "lists": lists, "busy": busy, "stage": body["stage"]})
            case "looked":
                self.looked(src, body)
            case "prepare":
                self.prepare(src, body)
            case "vote":
                self.vote(src, body)
            case "ask":
                if body["id"] not in self.attempts:
                    self.send(src, {"type": "end", "id": body["id"], "commit": body["id"] in self.decided})
            case "end":
                self.end(src, body["id"], body["commit"])
            case "ended":
                self.ended(src, body["id"])

    def on_timer(self, name: str) -> None:
        if name == "tick":
            for id_ in list(self.attempts):
                self.push(id_)
            for id_, owners in self.decided.items():
                for owner in owners:
                    self.send(owner, {"type": "end", "id": id_, "commit": True})
            for id_, entry in self.prepared.items():
                self.send(entry["from"], {"type": "ask", "id": id_})
            self.set_timer("tick", RESEND)
        else:
            self.push(name)

    # coordinator

    def start(self, request: dict[str, Any], until: float, wait: float = 0.0) -> None:
        parts: dict[str, list[Key]] = {}
        for _, key, _ in request["txn"]:
            keys = parts.setdefault(self.home(key), [])
            if key not in keys:
                keys.append(key)
        self.serial += 1
        id_ = f"{self.id}-{self.era}-{self.serial}"
        self.attempts[id_] = Attempt(request, until, parts)
        if wait:
            self.set_timer(id_, wait)
        else:
            self.push(id_)

    def push(self, id_: str) -> None:
        attempt = self.attempts.get(id_)
        if attempt is None:
            return
        if self.now() > attempt.until:
            self.drop(id_)
            self.reply(attempt.request, {"type": "error", "code": 30, "text": "tried too often, or too long"})
            return
        for owner, keys in attempt.parts.items():
            if attempt.stage == "read" and owner not in attempt.seen:
                self.send(owner, {"type": "look", "id": id_, "keys": keys, "stage": "read"})
            elif attempt.stage == "check" and owner not in attempt.votes:
                self.send(owner, {"type": "look", "id": id_, "keys": keys, "stage": "check"})
            elif attempt.stage == "prepare" and owner not in attempt.votes:
                ops = [op for op in attempt.request["txn"] if op[1] in keys]
                self.send(owner, {"type": "prepare", "id": id_, "ops": ops, "seen": attempt.seen[owner]})

    def looked(self, src: str, body: dict[str, Any]) -> None:
        id_ = body["id"]
        attempt = self.attempts.get(id_)
        if attempt is None or attempt.stage != body["stage"]:
            return
        if body["busy"]:
            self.again(id_)
        elif attempt.stage == "read":
            attempt.seen[src] = body["lists"]
            if len(attempt.seen) == len(attempt.parts):
                attempt.stage = "prepare" if attempt.writes else "check"
                if attempt.stage == "check" and len(attempt.parts) == 1:
                    self.finish(id_)
                else:
                    self.push(id_)
        elif body["lists"] != attempt.seen[src]:
            self.again(id_)
        else:
            attempt.votes.add(src)
            if len(attempt.votes) == len(attempt.parts):
                self.finish(id_)

    def vote(self, src: str, body: dict[str, Any]) -> None:
        id_ = body["id"]
        attempt = self.attempts.get(id_)
        if attempt is None:
            if body["yes"]:
                self.send(src, {"type": "end", "id": id_, "commit": id_ in self.decided})
        elif not body["yes"]:
            self.again(id_)
        else:
            attempt.votes.add(src)
            if len(attempt.votes) == len(attempt.parts):
                self.decided[id_] = list(attempt.parts)
                self.disk["decided"] = self.decided
                for owner in attempt.parts:
                    self.send(owner, {"type": "end", "id": id_, "commit": True})
                self.finish(id_)

    def again(self, id_: str) -> None:
        attempt = self.attempts[id_]
        self.drop(id_)
        self.start(attempt.request, attempt.until, self.random.uniform(0.005, 0.06))

    def drop(self, id_: str) -> None:
        attempt = self.attempts.pop(id_)
        if attempt.stage == "prepare":
            for owner in attempt.parts:
                self.send(owner, {"type": "end", "id": id_, "commit": False})

    def finish(self, id_: str) -> None:
        attempt = self.attempts.pop(id_)
        now = {key: list(values) for seen in attempt.seen.values() for key, values in seen.items()}
        done = []
        for f, key, value in attempt.request["txn"]:
            if f == "append":
                now[json.dumps(key)].append(value)
                done.append([f, key, value])
            else:
                done.append([f, key, list(now[json.dumps(key)]) or None])
        self.reply(attempt.request, {"type": "txn_ok", "txn": done})

    def ended(self, src: str, id_: str) -> None:
        if src in self.decided.get(id_, []):
            self.decided[id_].remove(src)
            if not self.decided[id_]:
                del self.decided[id_]
            self.disk["decided"] = self.decided

    # owner

    def look(self, keys: list[Key], id_: str) -> tuple[dict[str, list[int]], bool]:
        texts = [json.dumps(key) for key in keys]
        busy = any(json.dumps(op[1]) in texts for other in self.prepared.values() for op in other["ops"] if op[0] == "append")
        return {text: self.lists.get(text, []) for text in texts}, busy

    def prepare(self, src: str, body: dict[str, Any]) -> None:
        id_, ops = body["id"], body["ops"]
        if id_ in self.applied:
            return
        if id_ not in self.prepared:
            mine = {json.dumps(op[1]) for op in ops}
            taken = {json.dumps(op[1]) for other in self.prepared.values() for op in other["ops"]}
            if mine & taken or any(self.lists.get(key, []) != seen for key, seen in body["seen"].items()):
                self.send(src, {"type": "vote", "id": id_, "yes": False})
                return
            self.prepared[id_] = {"from": src, "ops": ops}
            self.disk["prepared"] = self.prepared
        self.send(src, {"type": "vote", "id": id_, "yes": True})

    def end(self, src: str, id_: str, commit: bool) -> None:
        entry = self.prepared.get(id_)
        if entry is not None:
            if commit:
                for f, key, value in entry["ops"]:
                    held = self.lists.setdefault(json.dumps(key), [])
                    if f == "append" and value not in held:
                        held.append(value)
                self.disk["lists"] = self.lists
                self.applied[id_] = True
                self.disk["applied"] = self.applied
            del self.prepared[id_]
            self.disk["prepared"] = self.prepared
        if commit:
            self.send(src, {"type": "ended", "id": id_})
