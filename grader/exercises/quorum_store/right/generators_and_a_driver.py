"""Every request is a generator that yields what to send and how many replicas must answer; a driver resumes it; silence without a quorum."""

import json

from grader.nodes import Node

NOTHING = [[0, ""], None]


class QuorumStore(Node):
    write_quorum: int
    read_quorum: int

    def on_start(self):
        self.life = self.random.getrandbits(62)
        self.number = 0
        self.running = {}  # id -> [generator, needed, answers by replica]

    # -- the replica
    def cell(self, key):
        return self.disk.get("cell " + json.dumps(key), NOTHING)

    def keep(self, key, stamp, value):
        if stamp > self.cell(key)[0]:
            self.disk["cell " + json.dumps(key)] = [stamp, value]

    # -- the requests
    def steps(self, body):
        key = body["key"]
        heard = yield {"type": "ask", "key": key}, self.cell(key), self.read_quorum
        stamp, value = max(heard, key=lambda told: told[0])
        if body["type"] == "write":
            top = max(stamp, self.cell(key)[0])
            stamp, value = [top[0] + 1, self.id], body["value"]
        if stamp[0]:
            self.keep(key, stamp, value)
        yield {"type": "store", "key": key, "stamp": stamp, "value": value}, True, self.write_quorum
        self.reply(body, {"type": "write_ok"} if body["type"] == "write" else {"type": "read_ok", "value": value})

    def advance(self, generator, heard):
        """Run the generator until it has to wait for other replicas."""
        while True:
            try:
                message, own, needed = generator.send(heard)
            except StopIteration:
                return
            self.number += 1
            name = [self.life, self.number]
            for peer in self.peers:
                self.send(peer, {**message, "name": name})
            if needed > 1:
                self.running[self.number] = [generator, needed, {self.id: own}]
                return
            heard = [own]

    def on_message(self, src, body):
        kind = body["type"]
        if kind in ("read", "write"):
            self.advance(self.steps(body), None)
        elif kind == "ask":
            self.send(src, {"type": "told", "name": body["name"], "what": self.cell(body["key"])})
        elif kind == "store":
            if body["stamp"][0]:
                self.keep(body["key"], body["stamp"], body["value"])
            self.send(src, {"type": "told", "name": body["name"], "what": True})
        elif kind == "told":
            life, number = body["name"]
            if life != self.life or number not in self.running:
                return
            generator, needed, answers = self.running[number]
            answers[src] = body["what"]
            if len(answers) >= needed:
                del self.running[number]
                self.advance(generator, list(answers.values()))

    def on_timer(self, name):
        pass
