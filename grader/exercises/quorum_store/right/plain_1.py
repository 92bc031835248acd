from typing import Any

from grader.nodes import Node


class QuorumStore(Node):
    """A replicated register for each key, after Attiya, Bar-Noy and Dolev: any node serves, a quorum decides."""

    write_quorum: int
    read_quorum: int

    def on_start(self) -> None:
        self.disk["lives"] = self.lives = self.disk.get("lives", 0) + 1
        self.begun = 0
        self.open: dict[str, dict[str, Any]] = {}  # requests under way, by an id that no other ever has

    def held(self, key: int | str) -> list[Any]:
        """The copy of one's own: [[counter, node], value]."""
        return self.disk.get(repr(key), [[0, ""], None])

    def keep(self, key: int | str, stamp: list[Any], value: Any) -> None:
        if stamp > self.held(key)[0]:
            self.disk[repr(key)] = [stamp, value]

    def on_message(self, src: str, body: dict[str, Any]) -> None:
        match body["type"]:
            case "read" | "write":
                self.begin(body)
            case "query":
                stamp, value = self.held(body["key"])
                self.send(src, {"type": "held", "id": body["id"], "stamp": stamp, "value": value})
            case "store":
                self.keep(body["key"], body["stamp"], body["value"])
                self.send(src, {"type": "stored", "id": body["id"]})
            case "held" if body["id"] in self.open:
                self.heard(body["id"], src, [body["stamp"], body["value"]])
            case "stored" if body["id"] in self.open:
                self.stored(body["id"], src)

    def begin(self, request: dict[str, Any]) -> None:
        """First round trip: what do read_quorum replicas hold?"""
        self.begun += 1
        name = f"{self.id}/{self.lives}/{self.begun}"
        self.open[name] = {"request": request, "held": {}, "stored": None}
        for peer in self.peers:
            self.send(peer, {"type": "query", "id": name, "key": request["key"]})
        self.heard(name, self.id, self.held(request["key"]))

    def heard(self, name: str, src: str, held: list[Any]) -> None:
        one = self.open[name]
        if one["stored"] is not None:
            return  # the second round trip has begun
        one["held"][src] = held
        if len(one["held"]) < self.read_quorum:
            return
        request = one["request"]
        own = self.held(request["key"])  # as it is now: another request may have chosen a timestamp meanwhile
        stamp, value = max([own, *one["held"].values()], key=lambda copy: copy[0])
        if request["type"] == "write":
            stamp, value = [stamp[0] + 1, self.id], request["value"]
        one["value"], one["stored"] = value, set()
        self.keep(request["key"], stamp, value)  # before anyone hears of it: this timestamp is taken
        for peer in self.peers:
            self.send(peer, {"type": "store", "id": name, "key": request["key"], "stamp": stamp, "value": value})
        self.stored(name, self.id)

    def stored(self, name: str, src: str) -> None:
        """Second round trip: write_quorum replicas hold it."""
        one = self.open[name]
        if one["stored"] is None:
            return
        one["stored"].add(src)
        if len(one["stored"]) < self.write_quorum:
            return
        del self.open[name]
        request = one["request"]
        if request["type"] == "write":
            self.reply(request, {"type": "write_ok"})
        else:
            self.reply(request, {"type": "read_ok", "value": one["value"]})
