"""Wound-wait: an older transaction has the coordinator of a younger one, which holds its lock, begin that one anew."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any, NamedTuple
from zlib import crc32

from grader.nodes import Node

PATIENCE, PULSE = 1.5, 0.12


class Lock(NamedTuple):
    coordinator: str
    age: list[Any]
    ops: list[list[Any]]

    def meets(self, other: Lock) -> bool:
        mine = {op[1]: "append" for op in self.ops if op[0] == "append"}
        theirs = {op[1] for op in other.ops if op[0] == "append"}
        return any(op[1] in mine for op in other.ops) or any(op[1] in theirs for op in self.ops)


class TxnStore(Node):
    def on_start(self) -> None:
        self.all = tuple(sorted((*self.peers, self.id)))
        self.disk["boot"] = self.disk.get("boot", -1) + 1
        self.counter = 0
        self.running: dict[str, dict[str, Any]] = {}
        self.waiting: dict[str, Lock] = {}
        self.locks = {entry[2:]: Lock(*self.disk[entry]) for entry in self.disk if entry[:2] == "L "}
        self.set_timer("pulse", 0.001)

    def on_message(self, src: str, body: dict[str, Any]) -> None:
        kind = body["type"]
        if kind == "txn":
            self.take(body)
        elif kind == "acquire":
            lock = Lock(src, body["age"], body["ops"])
            if body["t"] in self.locks:
                self.granted(body["t"])
            else:
                self.waiting[body["t"]] = lock
                self.grant()
        elif kind == "granted":
            self.count(src, body)
        elif kind == "wound":
            self.restart(body["t"])
        elif kind == "which":
            self.tell(src, body["t"])
        elif kind in ("commit", "abort"):
            self.over(src, body["t"], kind == "commit")
        elif kind == "ack":
            rest = [node for node in self.disk.get(f"C {body['t']}", []) if node != src]
            if rest:
                self.disk[f"C {body['t']}"] = rest
            else:
                self.disk.pop(f"C {body['t']}", None)

    def on_timer(self, name: str) -> None:
        if name != "pulse":
            if name in self.running:
                self.acquire(name)
            return
        for t in list(self.running):
            self.acquire(t)
        for t, lock in self.locks.items():
            self.send(lock.coordinator, {"type": "which", "t": t})
        for entry in self.disk:
            if entry[:2] == "C ":
                for node in self.disk[entry]:
                    self.send(node, {"type": "commit", "t": entry[2:]})
        self.grant()
        self.set_timer("pulse", PULSE)

    # ---- coordinator

    def take(self, body: dict[str, Any]) -> None:
        if not body["txn"]:
            self.reply(body, {"type": "txn_ok", "txn": []})
            return
        self.run(body, [self.now(), self.counter, self.id])

    def run(self, body: dict[str, Any], age: list[Any]) -> str:
        self.counter += 1
        t = f"{self.id}.{self.disk['boot']}.{self.counter}"
        parts = defaultdict(list)
        for op in body["txn"]:
            parts[self.all[crc32(str(op[1]).encode()) % len(self.all)]].append(op)
        self.running[t] = {"body": body, "age": age, "parts": dict(parts), "have": {}}
        self.acquire(t)
        return t

    def acquire(self, t: str) -> None:
        state = self.running[t]
        if self.now() - state["age"][0] > PATIENCE:
            self.stop(t)
            missing = [node for node in state["parts"] if node not in state["have"]]
            self.reply(state["body"], {"type": "error", "code": 11, "text": f"no locks from {missing}"})
            return
        for node, ops in state["parts"].items():
            if node not in state["have"]:
                self.send(node, {"type": "acquire", "t": t, "age": state["age"], "ops": ops})

    def stop(self, t: str) -> dict[str, Any]:
        state = self.running.pop(t)
        for node in state["parts"]:
            self.send(node, {"type": "abort", "t": t})
        return state

    def restart(self, t: str) -> None:
        if t in self.running:
            state = self.stop(t)
            self.run(state["body"], state["age"])

    def count(self, src: str, body: dict[str, Any]) -> None:
        t = body["t"]
        if t not in self.running:
            self.tell(src, t)
            return
        state = self.running[t]
        state["have"][src] = body["lists"]
        if state["have"].keys() != state["parts"].keys():
            return
        del self.running[t]
        lists = {name: values for have in state["have"].values() for name, values in have}
        result = []
        for f, key, value in state["body"]["txn"]:
            name = json.dumps(key)
            if f == "r":
                result.append([f, key, lists[name]])
            else:
                lists[name] = [*lists[name], value]
                result.append([f, key, value])
        self.disk[f"C {t}"] = list(state["parts"])
        self.reply(state["body"], {"type": "txn_ok", "txn": result})
        for node in state["parts"]:
            self.send(node, {"type": "commit", "t": t})

    def tell(self, src: str, t: str) -> None:
        if t not in self.running:
            self.send(src, {"type": "commit" if f"C {t}" in self.disk else "abort", "t": t})

    # ---- owner

    def grant(self) -> None:
        """Give waiting transactions their locks, the oldest first; wound the younger ones that hold them."""
        for t, lock in sorted(self.waiting.items(), key=lambda item: item[1].age):
            holders = {other: held for other, held in self.locks.items() if held.meets(lock)}
            older = [one for one in self.waiting.values() if one.age < lock.age and one.meets(lock)]
            if not holders and not older:
                del self.waiting[t]
                self.locks[t] = lock
                self.disk[f"L {t}"] = list(lock)
                self.granted(t)
            for other, held in holders.items():
                if lock.age < held.age:
                    self.send(held.coordinator, {"type": "wound", "t": other})

    def granted(self, t: str) -> None:
        lock = self.locks[t]
        lists = [[json.dumps(key), self.disk.get(f"V {json.dumps(key)}", [])] for _, key, _ in lock.ops]
        self.send(lock.coordinator, {"type": "granted", "t": t, "lists": lists})

    def over(self, src: str, t: str, committed: bool) -> None:
        self.waiting.pop(t, None)
        lock = self.locks.get(t)
        if lock and committed:
            values: dict[str, list[int]] = {}
            for f, key, value in lock.ops:
                name = f"V {json.dumps(key)}"
                have = values.setdefault(name, self.disk.get(name, []))
                if f == "append" and value not in have:
                    have.append(value)
            for name, have in values.items():
                self.disk[name] = have
        if lock:
            del self.locks[t], self.disk[f"L {t}"]
            self.grant()
        if committed:
            self.send(src, {"type": "ack", "t": t})
