"""A read does not write back what W of the replicas that answered it hold already; writes back to the others only."""

import json
from typing import Any

from grader.nodes import Node

Copy = tuple[int, str, Any]


class QuorumStore(Node):
    def on_start(self) -> None:
        self.asking: dict[str, tuple[dict[str, Any], dict[str, Copy]]] = {}
        self.storing: dict[str, tuple[dict[str, Any], Any, set[str]]] = {}
        self.life = f"{self.random.random()}"
        self.count = 0

    def mine(self, key: Any) -> Copy:
        counter, node, value = self.disk.get("copy " + json.dumps(key), (0, "", None))
        return counter, node, value

    def take(self, key: Any, copy: Copy) -> None:
        if copy[:2] > self.mine(key)[:2]:
            self.disk["copy " + json.dumps(key)] = list(copy)

    def on_message(self, src: str, body: dict[str, Any]) -> None:
        kind, name = body["type"], body.get("name", "")
        if kind in ("read", "write"):
            self.count += 1
            name = f"{self.life}/{self.count}"
            self.asking[name] = (body, {self.id: self.mine(body["key"])})
            for peer in self.peers:
                self.send(peer, {"type": "which", "name": name, "key": body["key"]})
            self.asked(name)
        elif kind == "which":
            self.send(src, {"type": "this", "name": name, "copy": list(self.mine(body["key"]))})
        elif kind == "this" and name in self.asking:
            counter, node, value = body["copy"]
            self.asking[name][1][src] = (counter, node, value)
            self.asked(name)
        elif kind == "take":
            self.take(body["key"], tuple(body["copy"]))
            self.send(src, {"type": "taken", "name": name})
        elif kind == "taken" and name in self.storing:
            self.storing[name][2].add(src)
            self.stored(name)

    def asked(self, name: str) -> None:
        request, copies = self.asking[name]
        if len(copies) < self.read_quorum:
            return
        del self.asking[name]
        copies[self.id] = self.mine(request["key"])
        best = max(copies.values(), key=lambda copy: copy[:2])
        if request["type"] == "write":
            best = (best[0] + 1, self.id, request["value"])
        self.take(request["key"], best)
        holders = {node for node, copy in copies.items() if copy[:2] == best[:2]} | {self.id}
        self.storing[name] = (request, best[2], holders)
        if len(holders) < self.write_quorum:
            for peer in self.peers:
                if peer not in holders:
                    self.send(peer, {"type": "take", "name": name, "key": request["key"], "copy": list(best)})
        self.stored(name)

    def stored(self, name: str) -> None:
        request, value, holders = self.storing[name]
        if len(holders) >= self.write_quorum:
            del self.storing[name]
            read = request["type"] == "read"
            self.reply(request, {"type": "read_ok", "value": value} if read else {"type": "write_ok"})
