"""One disk key per log entry (cut from the end), a Machine that remembers answers by (client, msg_id), error 11 instead of forwarding, reads in the log."""

import json

from grader.nodes import Node

HEARTBEAT = 0.08
STAND = 0.3, 0.8


def same(a, b):
    """Equality of JSON values: true is not 1."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    return a == b


class Log:
    """Entries 1 .. length, each on disk under a key of its own; removed from the end, so that a crash leaves a prefix."""

    def __init__(self, disk):
        self.disk = disk
        self.entries = []
        while f"entry {len(self.entries) + 1}" in disk:
            self.entries.append(disk[f"entry {len(self.entries) + 1}"])
        self.touched = {tuple(name) for name in disk.get("dropped", [])}
        self.touched |= {tuple(entry["name"]) for entry in self.entries if entry["name"]}

    def __len__(self):
        return len(self.entries)

    def __getitem__(self, index):
        return self.entries[index - 1]

    def term(self, index):
        return self.entries[index - 1]["term"] if index else 0

    def append(self, entry):
        self.disk[f"entry {len(self.entries) + 1}"] = entry
        self.entries.append(entry)
        if entry["name"]:
            self.touched.add(tuple(entry["name"]))

    def cut(self, length):
        """Forgets all entries after `length`, but not that they were here."""
        names = [entry["name"] for entry in self.entries[length:] if entry["name"]]
        if names:
            self.disk["dropped"] = self.disk.get("dropped", []) + names
        while len(self.entries) > length:
            del self.disk[f"entry {len(self.entries)}"]
            self.entries.pop()

    def end(self):
        return [self.term(len(self.entries)), len(self.entries)]


class Machine:
    """The key-value store. Each named request takes effect once, and is answered alike when it comes again."""

    def __init__(self):
        self.values = {}
        self.answers = {}

    def run(self, entry):
        name = tuple(entry["name"]) if entry["name"] else None
        if name in self.answers:
            return self.answers[name]
        answer = self.execute(entry["op"])
        if name is not None:
            self.answers[name] = answer
        return answer

    def execute(self, op):
        key = json.dumps(op["key"])
        if op["type"] == "write":
            self.values[key] = op["value"]
            return {"type": "write_ok"}
        if key not in self.values:
            return {"type": "error", "code": 20, "text": "no such key"}
        if op["type"] == "read":
            return {"type": "read_ok", "value": self.values[key]}
        if not same(self.values[key], op["from"]):
            return {"type": "error", "code": 22, "text": "the value is another one"}
        self.values[key] = op["to"]
        return {"type": "cas_ok"}


class RaftNode(Node):
    def on_start(self):
        self.current_term, self.voted = self.disk.get("term", [0, None])
        self.log = Log(self.disk)
        self.machine = Machine()
        self.role = "follower"
        self.commit_index = 0
        self.waiting = {}  # index -> (term, request)
        self.refused = set()
        self.votes = set()
        self.match, self.next = {}, {}
        self.majority = (len(self.peers) + 1) // 2 + 1
        self.patience()

    # --- terms and elections

    def patience(self):
        self.set_timer("stand", self.random.uniform(*STAND))

    def enter(self, term, vote=None):
        self.current_term, self.voted = term, vote
        self.disk["term"] = [term, vote]

    def step_down(self, term):
        if term > self.current_term:
            self.enter(term)
        if self.role == "leader":
            self.cancel_timer("beat")
            self.patience()
        self.role = "follower"

    def on_timer(self, name):
        if name == "beat":
            if self.role == "leader":
                self.tell_all()
        elif self.role != "leader":
            self.stand()

    def stand(self):
        self.role = "candidate"
        self.enter(self.current_term + 1, self.id)
        self.votes = {self.id}
        self.patience()
        for peer in self.peers:
            self.send(peer, {"type": "request_vote", "term": self.current_term, "end": self.log.end()})

    def lead(self):
        self.role = "leader"
        self.cancel_timer("stand")
        self.next = dict.fromkeys(self.peers, len(self.log) + 1)
        self.match = dict.fromkeys(self.peers, 0)
        self.log.append({"term": self.current_term, "name": None, "op": None})
        self.tell_all()

    # --- replication

    def tell_all(self):
        self.set_timer("beat", HEARTBEAT)
        for peer in self.peers:
            self.tell(peer)

    def tell(self, peer):
        before = self.next[peer] - 1
        self.send(peer, {
            "type": "append_entries",
            "term": self.current_term,
            "before": before,
            "before_term": self.log.term(before),
            "entries": self.log.entries[before:],
            "commit": self.commit_index,
        })

    def commit(self, index):
        while self.commit_index < index:
            self.commit_index += 1
            entry = self.log[self.commit_index]
            term, request = self.waiting.pop(self.commit_index, (None, None))
            if entry["op"] is None:
                continue
            answer = self.machine.run(entry)
            if term == entry["term"]:
                self.reply(request, answer)

    def count(self):
        """Commits what a majority has, if the last such entry is of this term."""
        index = sorted((len(self.log), *self.match.values()), reverse=True)[self.majority - 1]
        if index > self.commit_index and self.log.term(index) == self.current_term:
            self.commit(index)

    # --- messages

    def on_message(self, src, body):
        kind = body["type"]
        if kind in ("read", "write", "cas"):
            self.client(src, body)
            return
        if body["term"] > self.current_term:
            self.step_down(body["term"])
        getattr(self, kind)(src, body, body["term"] == self.current_term)

    def client(self, src, body):
        name = [src, body["msg_id"]] if body.get("msg_id") is not None else None
        if self.role != "leader":
            if name and tuple(name) in self.log.touched:  # a second copy: who knows what became of the first
                answer = {"type": "error", "code": 13, "text": "this node no longer leads"}
            else:
                self.refused.add(tuple(name or ()))
                answer = {"type": "error", "code": 11, "text": "this node does not lead"}
            self.reply(body, answer)
            return
        if name and tuple(name) in self.refused:  # a second copy: the first was told that nothing happens
            return
        op = {field: body[field] for field in ("type", "key", "value", "from", "to") if field in body}
        self.log.append({"term": self.current_term, "name": name, "op": op})
        self.waiting[len(self.log)] = (self.current_term, body)
        self.tell_all()

    def request_vote(self, src, body, now):
        granted = now and self.voted in (None, src) and self.role == "follower" and body["end"] >= self.log.end()
        if granted:
            if self.voted is None:
                self.enter(self.current_term, src)
            self.patience()
        self.send(src, {"type": "request_vote_res", "term": self.current_term, "granted": granted})

    def request_vote_res(self, src, body, now):
        if now and self.role == "candidate" and body["granted"]:
            self.votes.add(src)
            if len(self.votes) >= self.majority:
                self.lead()

    def append_entries(self, src, body, now):
        if not now:
            self.send(src, {"type": "append_entries_res", "term": self.current_term, "match": None, "length": 0})
            return
        self.role = "follower"
        self.patience()
        before, entries = body["before"], body["entries"]
        match = None
        if before <= len(self.log) and self.log.term(before) == body["before_term"]:
            for index, entry in enumerate(entries, before + 1):
                if index <= len(self.log) and self.log.term(index) != entry["term"]:
                    self.log.cut(index - 1)
                if index > len(self.log):
                    self.log.append(entry)
            match = before + len(entries)
            self.commit(min(body["commit"], match))
        length = min(len(self.log), before)
        if match is None and length == before:  # all entries of a term that does not match are doubtful
            wrong = self.log.term(before)
            while length and self.log.term(length) == wrong:
                length -= 1
        self.send(src, {"type": "append_entries_res", "term": self.current_term, "match": match, "length": length})

    def append_entries_res(self, src, body, now):
        if not now or self.role != "leader":
            return
        if body["match"] is not None:
            self.match[src] = max(self.match[src], body["match"])
            self.next[src] = self.match[src] + 1
            self.count()
        elif self.next[src] > max(self.match[src], body["length"]) + 1:
            self.next[src] = max(self.match[src], body["length"]) + 1
            self.tell(src)
