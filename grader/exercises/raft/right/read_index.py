"""An empty entry at the start of a term, reads after a round of heartbeats, requests forwarded and done once."""

from collections import namedtuple

from grader.nodes import Node

Entry = namedtuple("Entry", "term client number op")
INTERVAL = 0.06


class RaftNode(Node):
    role = "follower"
    commit_index = 0
    current_term = 0

    def on_start(self):
        saved = self.disk.get("state") or {"term": 0, "vote": "", "log": []}
        self.current_term = saved["term"]
        self.vote = saved["vote"]
        self.log = [Entry(0, "", 0, None)] + [Entry(*e) for e in saved["log"]]
        self.role = "follower"
        self.boss = None
        self.commit_index = 0
        self.kv = {}
        self.sessions = {}
        self.applied = 0
        self.quorum = (len(self.peers) + 1) // 2 + 1
        self.round = 0
        self.arm()

    def save(self):
        self.disk["state"] = {"term": self.current_term, "vote": self.vote, "log": self.log[1:]}

    def arm(self):
        self.set_timer("elect", 0.2 + 0.25 * self.random.random())

    def on_message(self, src, body):
        kind = body["type"]
        if kind in {"read", "write", "cas"}:
            self.client(src, body["msg_id"], {k: v for k, v in body.items() if k != "msg_id"}, body)
        elif kind == "forwarded":
            self.client(body["client"], body["number"], body["op"], None)
        else:
            if body["term"] > self.current_term:
                self.current_term, self.vote = body["term"], ""
                self.save()
                self.step_down()
            getattr(self, kind)(src, body)

    def step_down(self):
        if self.role == "leader":
            self.cancel_timer("beat")
        if self.role != "follower":
            self.role = "follower"
            self.arm()
        self.boss = None

    def client(self, client, number, op, request):
        if self.role != "leader":
            if self.boss and request is not None:
                self.send(self.boss, {"type": "forwarded", "client": client, "number": number, "op": op})
            else:
                self.send(client, {"type": "error", "code": 11, "text": "no leader", "in_reply_to": number})
            return
        if op["type"] == "read":
            self.round += 1
            self.reads.append((self.round, len(self.log) - 1, client, number, op["key"]))
            self.beat()
        elif self.sessions.get(client, (0, None))[0] >= number:
            done, answer = self.sessions[client]
            if done == number:
                self.send(client, answer)
        elif not any(e.client == client and e.number == number for e in self.log[self.applied + 1 :]):
            self.log.append(Entry(self.current_term, client, number, op))
            self.save()
            self.beat()

    def on_timer(self, name):
        if name == "elect":
            self.current_term += 1
            self.vote = self.id
            self.role, self.boss = "candidate", None
            self.save()
            self.yes = {self.id}
            self.arm()
            for p in self.peers:
                self.send(p, {"type": "request_vote", "term": self.current_term, "index": len(self.log) - 1,
                              "log_term": self.log[-1].term})
        elif self.role == "leader":
            self.beat()
            self.set_timer("beat", INTERVAL)

    def request_vote(self, src, body):
        yes = (
            body["term"] == self.current_term
            and self.vote in ("", src)
            and (body["log_term"], body["index"]) >= (self.log[-1].term, len(self.log) - 1)
        )
        if yes:
            if not self.vote:
                self.vote = src
                self.save()
            self.arm()
        self.send(src, {"type": "request_vote_res", "term": self.current_term, "yes": yes})

    def request_vote_res(self, src, body):
        if self.role == "candidate" and body["yes"] and body["term"] == self.current_term:
            self.yes.add(src)
            if len(self.yes) == self.quorum:
                self.role, self.boss = "leader", self.id
                self.cancel_timer("elect")
                self.reads = []
                self.heard = {p: -1 for p in self.peers}
                self.nexts = {p: len(self.log) for p in self.peers}
                self.has = {p: 0 for p in self.peers}
                self.log.append(Entry(self.current_term, "", 0, None))
                self.save()
                self.on_timer("beat")

    def beat(self):
        for p in self.peers:
            self.feed(p)

    def feed(self, p):
        n = self.nexts[p]
        self.send(p, {"type": "append_entries", "term": self.current_term, "prev": n - 1, "prev_term": self.log[n - 1].term,
                      "entries": self.log[n : n + 20], "commit": self.commit_index, "round": self.round})

    def append_entries(self, src, body):
        if body["term"] < self.current_term:
            self.send(src, {"type": "append_entries_res", "term": self.current_term, "ok": False, "hint": 1, "round": -1})
            return
        self.step_down()
        self.boss = src
        self.arm()
        prev, new = body["prev"], [Entry(*e) for e in body["entries"]]
        good = prev < len(self.log) and self.log[prev].term == body["prev_term"]
        if good:
            i = 0
            while i < len(new) and prev + 1 + i < len(self.log) and self.log[prev + 1 + i].term == new[i].term:
                i += 1
            if i < len(new):
                del self.log[prev + 1 + i :]
                self.log += new[i:]
                self.save()
            self.advance(min(body["commit"], prev + len(new)))
        self.send(src, {"type": "append_entries_res", "term": self.current_term, "ok": good, "upto": prev + len(new),
                        "hint": max(1, min(prev, len(self.log) - 1, self.commit_index + 1)), "round": body["round"]})

    def append_entries_res(self, src, body):
        if self.role != "leader" or body["term"] != self.current_term:
            return
        self.heard[src] = max(self.heard[src], body["round"])
        if body["ok"]:
            if body["upto"] > self.has[src]:
                self.has[src] = body["upto"]
            self.nexts[src] = self.has[src] + 1
            n = sorted([len(self.log) - 1, *self.has.values()], reverse=True)[self.quorum - 1]
            if n > self.commit_index and self.log[n].term == self.current_term:
                self.advance(n)
            if len(self.log) > self.nexts[src] + 20:
                self.feed(src)
        elif body["hint"] < self.nexts[src]:
            self.nexts[src] = body["hint"]
            self.feed(src)
        self.serve()

    def serve(self):
        sure = sorted([self.round, *self.heard.values()], reverse=True)[self.quorum - 1]
        left = []
        for read in self.reads:
            number, index, client, msg, key = read
            if number <= sure and self.applied >= index:
                value = {"type": "read_ok", "value": self.kv.get(key), "in_reply_to": msg}
                self.send(client, value)
            else:
                left.append(read)
        self.reads = left

    def advance(self, n):
        self.commit_index = max(self.commit_index, n)
        while self.applied < self.commit_index:
            self.applied += 1
            e = self.log[self.applied]
            if e.op is None or self.sessions.get(e.client, (0, None))[0] >= e.number:
                continue
            answer = dict(self.do(e.op), in_reply_to=e.number)
            self.sessions[e.client] = e.number, answer
            if self.role == "leader":
                self.send(e.client, answer)

    def do(self, op):
        key = op["key"]
        if op["type"] == "write":
            self.kv[key] = op["value"]
            return {"type": "write_ok"}
        if key not in self.kv:
            return {"type": "error", "code": 20, "text": "missing"}
        if self.kv[key] != op["from"]:
            return {"type": "error", "code": 22, "text": "differs"}
        self.kv[key] = op["to"]
        return {"type": "cas_ok"}
