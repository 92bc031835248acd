"""Figure 2 to the letter, reads are entries of the log, the log is one value on disk, others answer error 11."""

import json

from grader.nodes import Node

BEAT = 0.075


class RaftNode(Node):
    def on_start(self):
        self.current_term, self.voted_for = self.disk.get("vote", [0, None])
        self.log = self.disk.get("log", [])  # [term, operation]; the first one has index 1
        self.role = "follower"
        self.commit_index = 0
        self.applied = 0
        self.values = {}
        self.waiting = {}  # index -> (term, request)
        self.votes = set()
        self.next, self.match = {}, {}
        self.majority = (len(self.peers) + 1) // 2 + 1
        self.rest()

    # terms and votes

    def save(self, term, voted_for):
        self.disk["vote"] = [term, voted_for]
        self.current_term, self.voted_for = term, voted_for

    def rest(self):
        self.set_timer("election", self.random.uniform(0.3, 0.6))

    def last(self):
        return [self.log[-1][0] if self.log else 0, len(self.log)]

    def follow(self, term):
        self.save(term, None)
        if self.role == "leader":
            self.cancel_timer("beat")
            self.rest()
        self.role = "follower"

    def stand(self):
        self.save(self.current_term + 1, self.id)
        self.role = "candidate"
        self.votes = {self.id}
        self.rest()
        for peer in self.peers:
            self.send(peer, {"type": "request_vote", "term": self.current_term, "last": self.last()})

    def lead(self):
        self.role = "leader"
        self.cancel_timer("election")
        self.next = {peer: len(self.log) + 1 for peer in self.peers}
        self.match = {peer: 0 for peer in self.peers}
        self.beat()

    def beat(self):
        for peer in self.peers:
            self.tell(peer)
        self.set_timer("beat", BEAT)

    def tell(self, peer):
        prev = self.next[peer] - 1
        self.send(
            peer,
            {
                "type": "append_entries",
                "term": self.current_term,
                "prev": prev,
                "prev_term": self.log[prev - 1][0] if prev else 0,
                "entries": self.log[prev:],
                "commit": self.commit_index,
            },
        )

    # handlers

    def on_timer(self, name):
        if name == "election" and self.role != "leader":
            self.stand()
        elif name == "beat" and self.role == "leader":
            self.beat()

    def on_message(self, src, body):
        kind = body["type"]
        if kind in ("read", "write", "cas"):
            self.request(body)
            return
        if body["term"] > self.current_term:
            self.follow(body["term"])
        if kind == "request_vote":
            self.request_vote(src, body)
        elif kind == "request_vote_res":
            if self.role == "candidate" and body["term"] == self.current_term and body["granted"]:
                self.votes.add(src)
                if len(self.votes) >= self.majority:
                    self.lead()
        elif kind == "append_entries":
            self.append_entries(src, body)
        elif kind == "append_entries_res":
            self.append_entries_res(src, body)

    def request(self, body):
        if self.role != "leader":
            self.reply(body, {"type": "error", "code": 11, "text": "not the leader"})
            return
        operation = {field: body[field] for field in ("type", "key", "value", "from", "to") if field in body}
        self.log.append([self.current_term, operation])
        self.disk["log"] = self.log
        self.waiting[len(self.log)] = (self.current_term, body)
        for peer in self.peers:
            self.tell(peer)

    def request_vote(self, src, body):
        granted = (
            body["term"] == self.current_term and self.voted_for in (None, src) and body["last"] >= self.last()
        )
        if granted:
            if self.voted_for is None:
                self.save(self.current_term, src)
            self.rest()
        self.send(src, {"type": "request_vote_res", "term": self.current_term, "granted": granted})

    def append_entries(self, src, body):
        answer = {"type": "append_entries_res", "term": self.current_term, "ok": False, "match": 0}
        if body["term"] < self.current_term:
            self.send(src, answer)
            return
        self.role = "follower"
        self.rest()
        prev, entries = body["prev"], body["entries"]
        if prev > len(self.log) or prev and self.log[prev - 1][0] != body["prev_term"]:
            self.send(src, {**answer, "match": min(prev - 1, len(self.log))})
            return
        for at, entry in enumerate(entries, prev):
            if at >= len(self.log) or self.log[at][0] != entry[0]:
                self.log[at:] = entries[at - prev :]
                self.disk["log"] = self.log
                break
        known = prev + len(entries)
        if min(body["commit"], known) > self.commit_index:
            self.commit_index = min(body["commit"], known)
            self.apply()
        self.send(src, {**answer, "ok": True, "match": known})

    def append_entries_res(self, src, body):
        if self.role != "leader" or body["term"] != self.current_term:
            return
        if body["ok"]:
            self.match[src] = max(self.match[src], body["match"])
            self.next[src] = min(self.match[src], len(self.log)) + 1
            self.advance()
        else:
            self.next[src] = max(self.match[src] + 1, min(self.next[src] - 1, body["match"] + 1))
            self.tell(src)

    def advance(self):
        for index in range(len(self.log), self.commit_index, -1):
            if self.log[index - 1][0] != self.current_term:
                return
            if 1 + sum(match >= index for match in self.match.values()) >= self.majority:
                self.commit_index = index
                self.apply()
                return

    # the store

    def apply(self):
        while self.applied < self.commit_index:
            self.applied += 1
            term, operation = self.log[self.applied - 1]
            answer = self.execute(operation)
            asked_in, request = self.waiting.pop(self.applied, (None, None))
            if asked_in == term:
                self.reply(request, answer)

    def execute(self, operation):
        key = json.dumps(operation["key"])
        if operation["type"] == "write":
            self.values[key] = operation["value"]
            return {"type": "write_ok"}
        if key not in self.values:
            return {"type": "error", "code": 20, "text": "no such key"}
        if operation["type"] == "read":
            return {"type": "read_ok", "value": self.values[key]}
        if self.values[key] != operation["from"]:
            return {"type": "error", "code": 22, "text": "another value"}
        self.values[key] = operation["to"]
        return {"type": "cas_ok"}
