"""Treats itself as any replica: asks and stores by messages to itself, and numbers its own timestamps durably."""

from grader.nodes import Node

NOTHING = {"time": 0, "node": "", "value": None}


def newer(one, other):
    return (one["time"], one["node"]) > (other["time"], other["node"])


class QuorumStore(Node):
    def on_start(self):
        self.boot = self.disk.get("boot", 0) + 1
        self.disk["boot"] = self.boot
        self.pending = {}
        self.serial = 0

    def everyone(self, body):
        for node in (self.id, *self.peers):
            self.send(node, body)

    def on_message(self, src, body):
        handler = {
            "read": self.client, "write": self.client, "get": self.get, "got": self.got, "set": self.set, "ok": self.ok,
        }[body["type"]]  # fmt: skip
        handler(src, body)

    def client(self, src, body):
        self.serial += 1
        rid = [self.id, self.boot, self.serial]
        self.pending[str(rid)] = {"request": body, "got": [], "oks": [], "copy": dict(NOTHING), "second": False}
        self.everyone({"type": "get", "rid": rid, "key": body["key"]})

    def where(self, key):
        return f"{type(key).__name__} {key}"

    def get(self, src, body):
        copy = self.disk.get(self.where(body["key"]), NOTHING)
        self.send(src, {"type": "got", "rid": body["rid"], "copy": copy})

    def got(self, src, body):
        one = self.pending.get(str(body["rid"]))
        if not one or one["second"] or src in one["got"]:
            return
        one["got"].append(src)
        if newer(body["copy"], one["copy"]):
            one["copy"] = body["copy"]
        if len(one["got"]) < self.read_quorum:
            return
        one["second"] = True
        request = one["request"]
        if request["type"] == "write":
            issued = max(self.disk.get("issued", 0), one["copy"]["time"]) + 1
            self.disk["issued"] = issued  # never the same twice, of any key, in any life
            one["copy"] = {"time": issued, "node": self.id, "value": request["value"]}
        self.everyone({"type": "set", "rid": body["rid"], "key": request["key"], "copy": one["copy"]})

    def set(self, src, body):
        where = self.where(body["key"])
        if newer(body["copy"], self.disk.get(where, NOTHING)):
            self.disk[where] = body["copy"]
        self.send(src, {"type": "ok", "rid": body["rid"]})

    def ok(self, src, body):
        one = self.pending.get(str(body["rid"]))
        if not one or src in one["oks"]:
            return
        one["oks"].append(src)
        if len(one["oks"]) >= self.write_quorum:
            del self.pending[str(body["rid"])]
            answer = {"type": "write_ok"}
            if one["request"]["type"] == "read":
                answer = {"type": "read_ok", "value": one["copy"]["value"]}
            self.reply(one["request"], answer)
