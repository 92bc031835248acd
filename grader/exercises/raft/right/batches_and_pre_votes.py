"""Classes for log and store, pre-votes, a leader that resigns when it hears no majority, entries sent in batches."""

import json

from grader.nodes import Node

BEAT = 0.09
FLUSH = 0.004
QUIET = 0.3  # as long after a leader's message nobody helps to depose it
SEGMENT = 16
BATCH = 30


class Log:
    """Entries [term, operation] from index 1 on, in segments on disk of which all but the last are full."""

    def __init__(self, disk):
        self.disk = disk
        self.entries = []
        number = 0
        while f"segment {number}" in disk:
            self.entries += disk[f"segment {number}"]
            number += 1

    def __len__(self):
        return len(self.entries)

    def term(self, index):
        return self.entries[index - 1][0] if index else 0

    def last(self):
        return [self.term(len(self)), len(self)]

    def after(self, index, most):
        return self.entries[index : index + most]

    def segments(self):
        return -(-len(self.entries) // SEGMENT)

    def replace(self, start, new):
        """All after the first `start` entries becomes `new`, one at least; at any moment the disk holds a prefix."""
        first = start // SEGMENT
        for number in range(self.segments() - 1, first, -1):
            del self.disk[f"segment {number}"]
        self.entries[start:] = new
        for number in range(first, self.segments()):
            self.disk[f"segment {number}"] = self.entries[number * SEGMENT : (number + 1) * SEGMENT]

    def merge(self, start, entries):
        """Take entries that follow index `start`; what is there and agrees stays, and what follows it."""
        for offset, entry in enumerate(entries):
            index = start + offset + 1
            if index > len(self) or self.term(index) != entry[0]:
                self.replace(index - 1, entries[offset:])
                return


class Values:
    def __init__(self):
        self.of = {}

    def execute(self, operation):
        kind, key, *rest = operation
        name = json.dumps(key)
        if kind == "write":
            self.of[name] = rest[0]
            return {"type": "write_ok"}
        if name not in self.of:
            return {"type": "error", "code": 20, "text": f"no key {name}"}
        if kind == "read":
            return {"type": "read_ok", "value": self.of[name]}
        if self.of[name] != rest[0]:
            return {"type": "error", "code": 22, "text": f"{name} has another value"}
        self.of[name] = rest[1]
        return {"type": "cas_ok"}


class RaftNode(Node):
    def on_start(self):
        self.current_term, self.vote = self.disk.get("term", [0, None])
        self.log, self.values = Log(self.disk), Values()
        self.role = "follower"
        self.commit_index = self.applied = 0
        self.requests = {}  # index -> (term, request)
        self.supporters = None  # of a pre-vote that is under way
        self.votes = set()
        self.next, self.match, self.heard = {}, {}, {}
        self.led = None  # when a leader was heard last
        self.majority = (len(self.peers) + 1) // 2 + 1
        self.nap()

    def nap(self):
        self.set_timer("nap", self.random.uniform(0.35, 0.75))

    def to_all(self, body):
        for peer in self.peers:
            self.send(peer, {**body, "term": self.current_term})

    def set_term(self, term, vote):
        self.disk["term"] = [term, vote]
        self.current_term, self.vote = term, vote

    def resign(self):
        if self.role == "leader":
            self.cancel_timer("beat")
            self.cancel_timer("flush")
            self.nap()
        self.role = "follower"
        self.supporters = None

    # timers

    def on_timer(self, name):
        if name == "nap" and self.role != "leader":
            self.supporters = {self.id}
            self.to_all({"type": "pre_vote", "next": self.current_term + 1, "last": self.log.last()})
            self.nap()
        elif name == "flush" and self.role == "leader":
            self.tell_all()
        elif name == "beat" and self.role == "leader":
            now = self.now()
            if 1 + sum(now - heard < 0.7 for heard in self.heard.values()) < self.majority:
                self.resign()
            else:
                self.tell_all()
                self.set_timer("beat", BEAT)

    # messages

    def on_message(self, src, body):
        kind = body["type"]
        if kind in ("read", "write", "cas"):
            self.request(body)
            return
        if body["term"] > self.current_term:
            self.set_term(body["term"], None)
            self.resign()
        getattr(self, kind)(src, body)

    def request(self, body):
        if self.role != "leader":
            self.reply(body, {"type": "error", "code": 11, "text": "ask the leader"})
            return
        operation = [body["type"], body["key"]]
        operation += [body[field] for field in ("value", "from", "to") if field in body]
        self.log.replace(len(self.log), [[self.current_term, operation]])
        self.requests[len(self.log)] = (self.current_term, body)
        self.set_timer("flush", FLUSH)

    def pre_vote(self, src, body):
        led = self.role == "leader" or self.led is not None and self.now() - self.led < QUIET
        granted = not led and body["next"] > self.current_term and body["last"] >= self.log.last()
        answer = {"type": "pre_vote_res", "term": self.current_term, "next": body["next"], "granted": granted}
        self.send(src, answer)

    def pre_vote_res(self, src, body):
        if self.supporters is None or not body["granted"] or body["next"] != self.current_term + 1:
            return
        self.supporters.add(src)
        if len(self.supporters) >= self.majority:
            self.supporters = None
            self.set_term(self.current_term + 1, self.id)
            self.role, self.votes = "candidate", {self.id}
            self.nap()
            self.to_all({"type": "request_vote", "last": self.log.last()})

    def request_vote(self, src, body):
        granted = body["term"] == self.current_term and self.vote in (None, src) and body["last"] >= self.log.last()
        if granted:
            self.set_term(self.current_term, src)
            self.supporters = None
            self.nap()
        self.send(src, {"type": "request_vote_res", "term": self.current_term, "granted": granted})

    def request_vote_res(self, src, body):
        if self.role != "candidate" or body["term"] != self.current_term or not body["granted"]:
            return
        self.votes.add(src)
        if len(self.votes) >= self.majority:
            self.role, self.supporters = "leader", None
            self.cancel_timer("nap")
            self.next = {peer: len(self.log) + 1 for peer in self.peers}
            self.match = {peer: 0 for peer in self.peers}
            self.heard = {peer: self.now() for peer in self.peers}
            self.tell_all()
            self.set_timer("beat", BEAT)

    def tell_all(self):
        for peer in self.peers:
            self.tell(peer)

    def tell(self, peer):
        prev = self.next[peer] - 1
        body = {"type": "append_entries", "term": self.current_term, "commit": self.commit_index}
        body.update(prev=[self.log.term(prev), prev], entries=self.log.after(prev, BATCH))
        self.send(peer, body)

    def append_entries(self, src, body):
        if body["term"] < self.current_term:
            self.send(src, {"type": "append_entries_res", "term": self.current_term, "match": None, "hint": 0})
            return
        self.role, self.supporters, self.led = "follower", None, self.now()
        self.nap()
        term, prev = body["prev"]
        answer = {"type": "append_entries_res", "term": self.current_term, "match": None, "hint": 0}
        if prev > len(self.log) or self.log.term(prev) != term:
            answer["hint"] = min(prev - 1, len(self.log))
        else:
            self.log.merge(prev, body["entries"])
            answer["match"] = prev + len(body["entries"])
            self.advance(min(body["commit"], answer["match"]))
        self.send(src, answer)

    def append_entries_res(self, src, body):
        if self.role != "leader" or body["term"] != self.current_term:
            return
        self.heard[src] = self.now()
        if body["match"] is None:
            self.next[src] = max(min(self.match[src], len(self.log)), min(self.next[src] - 1, body["hint"])) + 1
            self.tell(src)
            return
        if body["match"] > self.match[src]:
            self.match[src] = body["match"]
            stored = sorted([len(self.log), *self.match.values()], reverse=True)
            index = min(stored[self.majority - 1], len(self.log))
            if self.log.term(index) == self.current_term:
                self.advance(index)
            self.next[src] = min(body["match"], len(self.log)) + 1
            if self.next[src] <= len(self.log):
                self.tell(src)

    def advance(self, index):
        self.commit_index = max(self.commit_index, index)
        while self.applied < self.commit_index:
            self.applied += 1
            term, operation = self.log.after(self.applied - 1, 1)[0]
            answer = self.values.execute(operation)
            asked_in, request = self.requests.pop(self.applied, (None, None))
            if asked_in == term:
                self.reply(request, answer)
