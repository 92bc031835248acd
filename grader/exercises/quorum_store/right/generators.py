"""Each request is a generator that yields a question for all replicas and how many answers it needs."""

import json

from grader.nodes import Node


class QuorumStore(Node):
    def on_start(self):
        self.running = {}
        self.tag = str(self.random.getrandbits(64))  # of this life: no answer to another one counts
        self.number = 0

    def on_message(self, src, body):
        kind = body["type"]
        if kind in ("read", "write"):
            self.number += 1
            name = self.tag + ":" + str(self.number)
            self.running[name] = [self.serve(body), None, {}, 0]
            self.resume(name, None)
        elif kind == "call":
            self.send(
                src, {"type": "answer", "to": body["name"], "step": body["step"], "data": self.local(body["what"])}
            )
        elif kind == "answer":
            self.answer(body["to"], body["step"], src, body["data"])

    def serve(self, request):
        key = json.dumps(request["key"])
        copies = yield ["get", key], self.read_quorum
        best = max([*copies, self.local(["get", key])], key=lambda copy: (copy["n"], copy["by"]))
        if request["type"] == "write":
            best = {"n": best["n"] + 1, "by": self.id, "value": request["value"]}
        yield ["put", key, best], self.write_quorum
        if request["type"] == "write":
            self.reply(request, {"type": "write_ok"})
        else:
            self.reply(request, {"type": "read_ok", "value": best["value"]})

    def local(self, what):
        copy = self.disk.get(what[1], {"n": 0, "by": "", "value": None})
        if what[0] == "put":
            if (what[2]["n"], what[2]["by"]) > (copy["n"], copy["by"]):
                self.disk[what[1]] = what[2]
            return None
        return copy

    def resume(self, name, answers):
        state = self.running[name]
        try:
            what, needed = state[0].send(answers)
        except StopIteration:
            del self.running[name]
            return
        state[1], state[2] = needed, {}
        state[3] += 1
        mine = self.local(what)
        for peer in self.peers:
            self.send(peer, {"type": "call", "name": name, "step": state[3], "what": what})
        self.answer(name, state[3], self.id, mine)

    def answer(self, name, step, src, data):
        state = self.running.get(name)
        if state is None or state[3] != step:
            return
        state[2][src] = data
        if len(state[2]) >= state[1]:
            self.resume(name, list(state[2].values()))
