"""ReadIndex reads that never enter the log, confirmed by numbered rounds of append_entries; whole state in two disk keys; error 11 off the leader."""

import json

from grader.nodes import Node


def name_of(key):
    return json.dumps(key)


class RaftNode(Node):
    BEAT = 0.08
    PATIENCE = (0.3, 0.6)

    def on_start(self):
        self.current_term, self.vote = self.disk.get("hard", [0, None])
        self.log = self.disk.get("log", [])  # [term, command], index 1 is log[0]
        self.role = "follower"
        self.commit_index = 0
        self.applied = 0
        self.store = {}
        self.done = {}  # (client, msg_id) -> answer
        self.waiting = {}  # index -> (term, request)
        self.reads = []
        self.round = 0
        self.votes = set()
        self.calm()

    # ---------------------------------------------------------------- helpers
    @property
    def majority(self):
        return (len(self.peers) + 1) // 2 + 1

    def calm(self):
        self.set_timer("election", self.random.uniform(*self.PATIENCE))

    def last(self):
        return [self.log[-1][0] if self.log else 0, len(self.log)]

    def term_at(self, index):
        return self.log[index - 1][0] if index else 0

    def keep_term(self, term, vote):
        self.current_term, self.vote = term, vote
        self.disk["hard"] = [term, vote]

    def step_down(self, term):
        was_leader = self.role == "leader"
        self.role = "follower"
        if term > self.current_term:
            self.keep_term(term, None)
        self.reads = []
        if was_leader:
            self.cancel_timer("beat")
            self.calm()

    # ---------------------------------------------------------------- timers
    def on_timer(self, name):
        if name == "election":
            if self.role != "leader":
                self.stand()
        elif name == "beat" and self.role == "leader":
            self.spread()
            self.set_timer("beat", self.BEAT)

    def stand(self):
        self.role = "candidate"
        self.keep_term(self.current_term + 1, self.id)
        self.votes = {self.id}
        self.calm()
        for peer in self.peers:
            self.send(peer, {"type": "request_vote", "term": self.current_term, "last": self.last()})

    def lead(self):
        self.role = "leader"
        self.cancel_timer("election")
        self.log.append([self.current_term, None])
        self.disk["log"] = self.log
        self.noop = len(self.log)
        self.next = {peer: self.noop for peer in self.peers}
        self.match = {peer: 0 for peer in self.peers}
        self.heard = {peer: 0 for peer in self.peers}
        self.round = 0
        self.reads = []
        self.spread()
        self.set_timer("beat", self.BEAT)

    def spread(self):
        self.round += 1
        for peer in self.peers:
            self.tell(peer)

    def tell(self, peer):
        prev = self.next[peer] - 1
        self.send(
            peer,
            {
                "type": "append_entries",
                "term": self.current_term,
                "prev": [prev, self.term_at(prev)],
                "entries": self.log[prev:],
                "commit": self.commit_index,
                "round": self.round,
            },
        )

    # ---------------------------------------------------------------- messages
    def on_message(self, src, body):
        kind = body["type"]
        if kind in ("read", "write", "cas"):
            self.on_client(src, body)
        elif kind in ("request_vote", "request_vote_res", "append_entries", "append_entries_res"):
            if body["term"] > self.current_term:
                self.step_down(body["term"])
            getattr(self, "on_" + kind)(src, body)

    def on_client(self, src, body):
        if self.role != "leader":
            self.reply(body, {"type": "error", "code": 11, "text": "not the leader"})
            return
        if body["type"] == "read":
            self.reads.append((self.round + 1, max(self.commit_index, self.noop), body))
            self.spread()
            return
        command = {name: body[name] for name in ("type", "key", "value", "from", "to") if name in body}
        self.log.append([self.current_term, [src, body["msg_id"], command]])
        self.disk["log"] = self.log
        self.waiting[len(self.log)] = (self.current_term, body)
        self.spread()

    def on_request_vote(self, src, body):
        granted = (
            body["term"] == self.current_term
            and self.role == "follower"
            and self.vote in (None, src)
            and body["last"] >= self.last()
        )
        if granted:
            self.keep_term(self.current_term, src)
            self.calm()
        self.send(src, {"type": "request_vote_res", "term": self.current_term, "granted": granted})

    def on_request_vote_res(self, src, body):
        if self.role == "candidate" and body["term"] == self.current_term and body["granted"]:
            self.votes.add(src)
            if len(self.votes) >= self.majority:
                self.lead()

    def on_append_entries(self, src, body):
        answer = {"type": "append_entries_res", "term": self.current_term, "round": body["round"]}
        if body["term"] < self.current_term:
            self.send(src, {**answer, "ok": False, "hint": 0, "round": -1})
            return
        self.role = "follower"
        self.calm()
        prev, prev_term = body["prev"]
        if prev > len(self.log) or self.term_at(prev) != prev_term:
            hint = min(prev, len(self.log) + 1)
            if prev <= len(self.log):
                bad = self.term_at(prev)
                while hint > 1 and self.term_at(hint - 1) == bad:
                    hint -= 1
            self.send(src, {**answer, "ok": False, "hint": max(1, hint)})
            return
        fresh = list(self.log)
        for index, entry in enumerate(body["entries"], prev + 1):
            if index <= len(fresh) and fresh[index - 1][0] != entry[0]:
                del fresh[index - 1 :]
            if index > len(fresh):
                fresh.append(entry)
        if fresh != self.log:
            self.log = fresh
            self.disk["log"] = fresh
        match = prev + len(body["entries"])
        self.commit_index = max(self.commit_index, min(body["commit"], match))
        self.apply()
        self.send(src, {**answer, "ok": True, "match": match})

    def on_append_entries_res(self, src, body):
        if self.role != "leader" or body["term"] != self.current_term:
            return
        self.heard[src] = max(self.heard[src], body["round"])
        if body["ok"]:
            self.match[src] = max(self.match[src], body["match"])
            self.next[src] = max(self.next[src], self.match[src] + 1)
            self.advance()
        elif body["hint"] < self.next[src]:
            self.next[src] = max(self.match[src] + 1, body["hint"])
            self.tell(src)
        self.serve()

    def advance(self):
        held = sorted([len(self.log), *self.match.values()], reverse=True)[self.majority - 1]
        if held > self.commit_index and self.term_at(held) == self.current_term:
            self.commit_index = held
            self.apply()

    def serve(self):
        known = sorted([self.round, *self.heard.values()], reverse=True)[self.majority - 1]
        later = []
        for number, index, request in self.reads:
            if number <= known and index <= self.applied:
                key = name_of(request["key"])
                if key in self.store:
                    self.reply(request, {"type": "read_ok", "value": self.store[key]})
                else:
                    self.reply(request, {"type": "error", "code": 20, "text": "no such key"})
            else:
                later.append((number, index, request))
        self.reads = later

    def apply(self):
        while self.applied < self.commit_index:
            self.applied += 1
            term, what = self.log[self.applied - 1]
            answer = None
            if what is not None:
                client, number, command = what
                if (client, number) not in self.done:
                    self.done[client, number] = self.execute(command)
                answer = self.done[client, number]
            held = self.waiting.pop(self.applied, None)
            if held is not None and held[0] == term and answer is not None:
                self.reply(held[1], answer)

    def execute(self, command):
        key = name_of(command["key"])
        if command["type"] == "write":
            self.store[key] = command["value"]
            return {"type": "write_ok"}
        if key not in self.store:
            return {"type": "error", "code": 20, "text": "no such key"}
        if self.store[key] != command["from"]:
            return {"type": "error", "code": 22, "text": "another value"}
        self.store[key] = command["to"]
        return {"type": "cas_ok"}
