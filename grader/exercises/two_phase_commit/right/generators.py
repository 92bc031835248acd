"""Each transaction is a generator that waits for what comes next; the coordinator works on one after another of them."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Generator
from typing import Any

from grader.nodes import Node

Input = tuple[str, dict[str, Any]]
Course = Generator[None, Input, None]


class Coordinator(Node):
    def on_start(self) -> None:
        self.queue: deque[str] = deque()
        self.course: Course | None = None
        for key in sorted(self.disk, key=lambda key: int(self.disk[key]["number"])):
            if not self.disk[key].get("closed"):
                self.queue.append(key)
        self.next_number = len(self.disk)
        self.go_on()

    def on_message(self, src: str, body: dict[str, Any]) -> None:
        if body["type"] == "begin":
            key = json.dumps(body["txn"])
            self.disk[key] = {"number": self.next_number, "client": src, "request": dict(body)}
            self.next_number += 1
            self.queue.append(key)
        elif self.course is not None:
            self.give(src, body)
        self.go_on()

    def on_timer(self, name: str) -> None:
        self.give("", {"type": "timer", "txn": json.loads(name)})
        self.go_on()

    def give(self, src: str, body: dict[str, Any]) -> None:
        assert self.course is not None
        try:
            self.course.send((src, body))
        except StopIteration:
            self.course = None

    def go_on(self) -> None:
        while self.course is None and self.queue:
            self.course = self.run(self.queue.popleft())
            try:
                next(self.course)
            except StopIteration:
                self.course = None

    def run(self, key: str) -> Course:
        entry = self.disk[key]
        txn, writes = entry["request"]["txn"], entry["request"]["writes"]
        if "outcome" not in entry:
            outcome = "aborted"
            if not entry.get("asked"):
                entry["asked"] = True
                self.disk[key] = entry
                outcome = yield from self.vote(key, txn, writes)
            entry["outcome"] = outcome
            self.disk[key] = entry
            answer = {"type": outcome, "txn": txn, "in_reply_to": entry["request"]["msg_id"]}
            self.send(entry["client"], answer)
        left = set(writes)
        for _ in range(8):  # then it makes room for others, and comes back to those that do not answer
            for name in sorted(left):
                self.send(name, {"type": entry["outcome"], "txn": txn})
            self.set_timer(key, 0.12)
            while left:
                src, body = yield
                if body["txn"] != txn:
                    continue
                if body["type"] == "timer":
                    break
                left -= {src} if body["type"] == "ok" else set()
            if not left:
                self.cancel_timer(key)
                entry["closed"] = True
                self.disk[key] = entry
                return
            if self.queue:
                self.cancel_timer(key)
                break
        self.queue.append(key)

    def vote(self, key: str, txn: Any, writes: dict[str, Any]) -> Generator[None, Input, str]:
        missing = set(writes)
        for name, entries in writes.items():
            self.send(name, {"type": "can you?", "txn": txn, "entries": entries})
        self.set_timer(key, 0.5)
        while missing:
            src, body = yield
            if body["txn"] != txn:
                continue
            if body["type"] in ("no", "timer"):
                return "aborted"
            if body["type"] == "yes":
                missing.discard(src)
        return "committed"


class Participant(Node):
    def on_start(self) -> None:
        pass

    def on_message(self, src: str, body: dict[str, Any]) -> None:
        if body["type"] == "read":
            self.reply(body, {"type": "read_ok", "value": self.disk.get("v" + body["key"])})
            return
        txn = body["txn"]
        mine = "t" + json.dumps(txn)
        if body["type"] == "can you?":
            if mine in self.disk:
                return
            free = all("l" + key not in self.disk for key in body["entries"])
            if free:
                self.disk[mine] = body["entries"]  # from here on it is promised, and the locks follow from it
                self.lock(mine)
            self.send(src, {"type": "yes" if free else "no", "txn": txn})
            return
        entries = self.disk.get(mine)
        if isinstance(entries, dict):
            if body["type"] == "committed":
                for key, value in entries.items():
                    self.disk["v" + key] = value
            for key in entries:
                self.disk.pop("l" + key, None)
        self.disk[mine] = "over"
        self.send(src, {"type": "ok", "txn": txn})

    def lock(self, mine: str) -> None:
        for key in self.disk[mine]:
            self.disk["l" + key] = mine
