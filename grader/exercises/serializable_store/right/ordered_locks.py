"""Locks in the order of owners, one owner after another; transactions that only read look twice and lock nothing."""

import json
from typing import Any
from zlib import crc32

from grader.nodes import Node


class TxnStore(Node):
    """State of an owner on disk: one entry per key, one per transaction that holds locks. A queue of waiters in memory."""

    def on_start(self):
        self.order = sorted({self.id} | set(self.peers))
        start = self.disk.get("starts", 0)
        self.disk["starts"] = start + 1
        self.prefix, self.next_number = f"{self.id}:{start}:", 0
        self.coordinated: dict[str, dict[str, Any]] = {}
        self.queue: list[tuple[str, dict[str, Any]]] = []
        self.locks: dict[str, dict[str, Any]] = {}
        for entry in self.disk:
            if entry.startswith("lock "):
                self.locks[entry[5:]] = self.disk[entry]
        self.on_timer("repeat")

    def on_timer(self, name):
        if name != "repeat":
            if name in self.coordinated:
                self.begin_reading(name)
            return
        for txn in list(self.coordinated):
            self.step(txn)
        for entry in self.disk:
            if entry.startswith("won "):
                for owner in self.disk[entry]:
                    self.send(owner, {"type": "release", "txn": entry[4:], "commit": True})
        for txn, lock in self.locks.items():
            self.send(lock["by"], {"type": "status", "txn": txn})
        self.set_timer("repeat", 0.1)

    def on_message(self, src, body):
        handler = {
            "txn": self.request, "lock": self.lock, "locked": self.locked, "peek": self.peek, "peeked": self.peeked,
            "status": self.status, "release": self.release, "released": self.released,
        }[body["type"]]
        handler(src, body)

    # -- the node that was asked

    def request(self, src, body):
        if not body["txn"]:
            return self.reply(body, {"type": "txn_ok", "txn": []})
        txn, self.next_number = f"{self.prefix}{self.next_number}", self.next_number + 1
        parts: dict[str, list[Any]] = {}
        for op in sorted(body["txn"], key=lambda op: str(op[1])):
            owner = self.order[crc32(str(op[1]).encode()) % len(self.order)]
            parts.setdefault(owner, []).append(op)
        self.coordinated[txn] = {
            "request": body, "parts": parts, "todo": sorted(parts), "lists": {}, "deadline": self.now() + 1.6,
            "reads": all(op[0] == "r" for op in body["txn"]), "round": 0,
        }  # fmt: skip
        if self.coordinated[txn]["reads"]:
            self.begin_reading(txn)
        else:
            self.step(txn)

    def begin_reading(self, txn):
        state = self.coordinated[txn]
        state["round"], state["first"], state["got"] = state["round"] + 1, None, {}
        self.step(txn)

    def step(self, txn):
        state = self.coordinated[txn]
        if self.now() > state["deadline"]:
            del self.coordinated[txn]
            if not state["reads"]:
                for owner in state["parts"]:
                    self.send(owner, {"type": "release", "txn": txn, "commit": False})
            self.reply(state["request"], {"type": "error", "code": 11, "text": "gave up"})
        elif state["reads"]:
            for owner, ops in state["parts"].items():
                if owner not in state["got"]:
                    self.send(owner, {"type": "peek", "txn": txn, "round": state["round"], "keys": [op[1] for op in ops]})
        else:
            owner = state["todo"][0]
            self.send(owner, {"type": "lock", "txn": txn, "ops": state["parts"][owner]})

    def peeked(self, src, body):
        txn = body["txn"]
        state = self.coordinated.get(txn)
        if state is None or body["round"] != state["round"]:
            return
        state["got"][src] = body["lists"]
        if None in state["got"].values():
            return self.look_again_soon(txn)
        if len(state["got"]) < len(state["parts"]):
            return
        if len(state["parts"]) > 1 and state["first"] is None:
            state["round"], state["first"], state["got"] = state["round"] + 1, state["got"], {}
            self.step(txn)
        elif state["first"] in (None, state["got"]):
            for lists in state["got"].values():
                state["lists"].update(lists)
            self.answer(txn)
        else:
            self.look_again_soon(txn)

    def look_again_soon(self, txn):
        self.coordinated[txn]["round"] += 1  # answers of this round are void
        self.set_timer(txn, self.random.uniform(0.01, 0.03))

    def locked(self, src, body):
        txn = body["txn"]
        state = self.coordinated.get(txn)
        if state is None:
            self.status(src, body)
        elif not state["reads"] and state["todo"] and state["todo"][0] == src:
            state["lists"].update(body["lists"])
            state["todo"] = state["todo"][1:]
            if state["todo"]:
                self.step(txn)
            else:
                self.disk[f"won {txn}"] = sorted(state["parts"])
                self.answer(txn)
                for owner in state["parts"]:
                    self.send(owner, {"type": "release", "txn": txn, "commit": True})

    def answer(self, txn):
        state = self.coordinated.pop(txn)
        lists = {key: list(values) for key, values in state["lists"].items()}
        answer = []
        for kind, key, value in state["request"]["txn"]:
            if kind == "append":
                lists[json.dumps(key)].append(value)
            else:
                value = lists[json.dumps(key)].copy()
            answer.append([kind, key, value])
        self.reply(state["request"], {"type": "txn_ok", "txn": answer})

    def status(self, src, body):
        if body["txn"] not in self.coordinated:
            self.send(src, {"type": "release", "txn": body["txn"], "commit": f"won {body['txn']}" in self.disk})

    def released(self, src, body):
        entry = f"won {body['txn']}"
        if entry in self.disk:
            self.disk[entry] = [owner for owner in self.disk[entry] if owner != src]
            if not self.disk[entry]:
                del self.disk[entry]

    # -- the owner

    def values(self, keys):
        return {json.dumps(key): self.disk.get(f"list {json.dumps(key)}", []) for key in keys}

    def taken(self, keys, kinds=("append", "r")):
        return any(op[1] in keys and op[0] in kinds for lock in self.locks.values() for op in lock["ops"])

    def peek(self, src, body):
        lists = None if self.taken(body["keys"], ("append",)) else self.values(body["keys"])
        self.send(src, {"type": "peeked", "txn": body["txn"], "round": body["round"], "lists": lists})

    def lock(self, src, body):
        txn = body["txn"]
        if txn not in self.locks and txn not in [other["txn"] for _, other in self.queue]:
            self.queue.append((src, body))
            self.serve()
        elif txn in self.locks:
            self.send(src, {"type": "locked", "txn": txn, "lists": self.values([op[1] for op in body["ops"]])})

    def serve(self):
        waiting, self.queue = self.queue, []
        wanted: list[Any] = []
        for src, body in waiting:
            keys = [op[1] for op in body["ops"]]
            if self.taken(keys) or set(keys) & set(wanted):  # first come, first served
                self.queue.append((src, body))
                wanted += keys
                continue
            self.locks[body["txn"]] = {"by": src, "ops": body["ops"]}
            self.disk[f"lock {body['txn']}"] = self.locks[body["txn"]]
            self.send(src, {"type": "locked", "txn": body["txn"], "lists": self.values(keys)})

    def release(self, src, body):
        txn = body["txn"]
        self.queue = [(who, other) for who, other in self.queue if other["txn"] != txn]
        lock = self.locks.pop(txn, None)
        if lock is not None:
            for kind, key, value in lock["ops"] if body["commit"] else []:
                entry = f"list {json.dumps(key)}"
                if kind == "append" and value not in self.disk.get(entry, []):
                    self.disk[entry] = self.disk.get(entry, []) + [value]
            del self.disk[f"lock {txn}"]
        if body["commit"]:
            self.send(src, {"type": "released", "txn": txn})
        self.serve()
