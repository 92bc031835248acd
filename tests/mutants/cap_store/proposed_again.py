"""A write whose proposal was refused is proposed again, though somebody may have accepted it, and others read it.

check: linearizable
kind: not_linearizable or not_available
"""

import json

from grader.nodes import Node

GIVE_UP = 1.7
FIRST = [0, ""]


class Store(Node):
    mode = "CP"

    def on_start(self):
        self.quorum = (len(self.peers) + 1) // 2 + 1
        self.work = Consistent(self) if self.mode == "CP" else Available(self)

    def on_message(self, src, body):
        self.work.hear(src, body)

    def on_timer(self, name):
        self.work.timer(name)


class Consistent:
    def __init__(self, node):
        self.node, self.rounds, self.highest, self.count = node, {}, 0, 0
        self.registers = {}

    def register(self, key):
        return self.registers.setdefault(json.dumps(key), {"promised": FIRST, "accepted": FIRST, "value": None})

    def to_all(self, body):
        for peer in self.node.peers:
            self.node.send(peer, body)
        self.hear(self.node.id, body)

    def begin(self, number):
        job = self.rounds[number]
        self.highest += 1
        job.update(phase="prepare", ballot=[self.highest, self.node.id], answers={})
        self.to_all({"type": "prepare", "number": number, "ballot": job["ballot"], "key": job["request"]["key"]})

    def hear(self, src, body):
        node, kind = self.node, body["type"]
        if kind in ("read", "write"):
            self.count += 1
            self.rounds[self.count] = {"request": body}
            node.set_timer(f"end {self.count}", GIVE_UP)
            self.begin(self.count)
            return
        if kind in ("prepare", "accept"):
            register, ballot = self.register(body["key"]), body["ballot"]
            self.highest = max(self.highest, ballot[0])
            good = ballot > register["promised"] if kind == "prepare" else ballot >= register["promised"]
            answer = {"type": "vote", "number": body["number"], "ballot": ballot, "phase": kind, "good": good}
            if good:
                register["promised"] = ballot
                if kind == "accept":
                    register.update(accepted=ballot, value=body["value"])
            answer |= {"accepted": register["accepted"], "value": register["value"], "promised": register["promised"]}
            if src == node.id:
                self.hear(src, answer)
            else:
                node.send(src, answer)
            return
        job = self.rounds.get(body["number"])
        if job is None or body["ballot"] != job["ballot"] or body["phase"] != job["phase"]:
            return
        self.highest = max(self.highest, body["promised"][0])
        if not body["good"]:
            job["phase"] = "resting"
            node.set_timer(f"again {body['number']}", node.random.uniform(0.01, 0.2))
            return
        job["answers"][src] = body
        if len(job["answers"]) < node.quorum:
            return
        request = job["request"]
        if job["phase"] == "prepare":
            latest = max(job["answers"].values(), key=lambda answer: answer["accepted"])
            job["value"] = request["value"] if request["type"] == "write" else latest["value"]
            job.update(phase="accept", answers={})
            self.to_all(
                {
                    "type": "accept",
                    "number": body["number"],
                    "ballot": job["ballot"],
                    "key": request["key"],
                    "value": job["value"],
                }
            )
        else:
            del self.rounds[body["number"]]
            node.cancel_timer(f"end {body['number']}")
            node.cancel_timer(f"again {body['number']}")
            node.reply(
                request,
                {"type": "read_ok", "value": job["value"]} if request["type"] == "read" else {"type": "write_ok"},
            )

    def timer(self, name):
        what, number = name.split()
        if int(number) not in self.rounds:
            return
        if what == "again":
            self.begin(int(number))
        else:
            self.node.reply(self.rounds.pop(int(number))["request"], {"type": "error", "code": 13, "text": "no quorum"})


class Available:
    """Each key has brothers, [vector, writer, value]: those that no other one's vector covers."""

    def __init__(self, node):
        self.node = node
        node.set_timer("gossip", 0.5)

    def brothers(self, key):
        return self.node.disk.get(json.dumps(key), [])

    def absorb(self, key, new):
        every = self.brothers(key)
        for one in new:
            if not any(covers(other[0], one[0]) for other in every):
                every = [other for other in every if not covers(one[0], other[0])] + [one]
        if every != self.brothers(key):
            self.node.disk[json.dumps(key)] = every

    def hear(self, src, body):
        node = self.node
        if body["type"] == "state":
            for text, brothers in body["state"].items():
                self.absorb(json.loads(text), brothers)
            return
        key, brothers = body["key"], self.brothers(body["key"])
        if body["type"] == "read":
            best = max(brothers, key=lambda one: (sum(one[0].values()), one[1]), default=[{}, "", None])
            node.reply(body, {"type": "read_ok", "value": best[2]})
            return
        vector = {}
        for other, _, _ in brothers:
            for name, count in other.items():
                vector[name] = max(vector.get(name, 0), count)
        vector[node.id] = vector.get(node.id, 0) + 1
        self.absorb(key, [[vector, node.id, body["value"]]])
        node.reply(body, {"type": "write_ok"})

    def timer(self, name):
        self.node.send(self.node.random.choice(self.node.peers), {"type": "state", "state": dict(self.node.disk)})
        self.node.set_timer("gossip", 0.15)


def covers(one, other):
    return all(one.get(name, 0) >= count for name, count in other.items())
