"""Requests are forwarded, reads wait for a round of heartbeats (read index), each entry has its own place on disk."""

import json

from grader.nodes import Node

BEAT = 0.08
MOST = 64  # entries in one message


class RaftNode(Node):
    def on_start(self):
        self.current_term, self.voted_for = self.disk.get("meta", [0, None])
        self.log = []  # {"term", "op"}
        while f"log/{len(self.log) + 1}" in self.disk:
            self.log.append(self.disk[f"log/{len(self.log) + 1}"])
        self.role, self.leader = "follower", None
        self.commit_index = self.applied = 0
        self.store = {}
        self.sessions = {}  # client -> (msg_id, answer) of the last of its requests that was applied
        self.waiting = {}  # index -> (term, where the answer goes)
        self.reads = []  # (round of heartbeats, key, where the answer goes)
        self.round = 0
        self.life, self.count = self.random.getrandbits(60), 0
        self.forwarded = {}  # reference -> request
        self.votes, self.next, self.match, self.heard = set(), {}, {}, {}
        self.majority = (len(self.peers) + 1) // 2 + 1
        self.wait()

    # what is on disk

    def set_meta(self, term, voted_for):
        self.disk["meta"] = [term, voted_for]
        self.current_term, self.voted_for = term, voted_for

    def append(self, entry):
        self.disk[f"log/{len(self.log) + 1}"] = entry
        self.log.append(entry)

    def truncate(self, length):
        """Forget all entries after the first `length`, from the end, so that what is on disk is a log at any moment."""
        for index in range(len(self.log), length, -1):
            del self.disk[f"log/{index}"]
        del self.log[length:]

    def term_at(self, index):
        return self.log[index - 1]["term"] if index else 0

    # roles

    def wait(self):
        self.set_timer("election", self.random.uniform(0.3, 0.6))

    def step_down(self, term):
        if term > self.current_term:
            self.set_meta(term, None)
            self.leader = None
        if self.role == "leader":
            self.cancel_timer("beat")
            self.wait()
        self.role, self.reads = "follower", []

    def on_timer(self, name):
        if name == "beat" and self.role == "leader":
            self.tell_all()
            self.set_timer("beat", BEAT)
        elif name == "election" and self.role != "leader":
            self.set_meta(self.current_term + 1, self.id)
            self.role, self.leader, self.votes = "candidate", None, {self.id}
            self.wait()
            index = len(self.log)
            for peer in self.peers:
                ask = {"type": "request_vote", "term": self.current_term, "last": [self.term_at(index), index]}
                self.send(peer, ask)

    def lead(self):
        self.role, self.leader = "leader", self.id
        self.cancel_timer("election")
        self.next = {peer: len(self.log) + 1 for peer in self.peers}
        self.match = {peer: 0 for peer in self.peers}
        self.heard = {peer: 0 for peer in self.peers}
        self.append({"term": self.current_term, "op": {"type": "nothing"}})
        self.tell_all()
        self.set_timer("beat", BEAT)

    # messages

    def on_message(self, src, body):
        kind = body["type"]
        if kind in ("read", "write", "cas"):
            self.client(src, body)
        elif kind == "forward":
            if self.role == "leader":
                self.serve(body["op"], ("node", src, body["ref"]))
            else:
                error = {"type": "error", "code": 13, "text": "forwarded to one who leads no more"}
                self.answer(("node", src, body["ref"]), error)
        elif kind == "forward_res":
            request = self.forwarded.pop(body["ref"], None)
            if request is not None:
                self.reply(request, body["answer"])
        else:
            if body["term"] > self.current_term:
                self.step_down(body["term"])
            getattr(self, "on_" + kind)(src, body)

    def client(self, src, body):
        op = {field: body[field] for field in ("type", "key", "value", "from", "to") if field in body}
        op.update(client=src, id=body.get("msg_id"))
        if self.role == "leader":
            self.serve(op, ("client", body))
        elif self.leader is not None:
            self.count += 1
            ref = f"{self.life}.{self.count}"
            self.forwarded[ref] = body
            self.send(self.leader, {"type": "forward", "term": self.current_term, "ref": ref, "op": op})
        else:
            self.reply(body, {"type": "error", "code": 11, "text": "no leader is known"})

    def serve(self, op, back):
        if op["type"] == "read":
            self.round += 1
            self.reads.append((self.round, op["key"], back))
        else:
            self.append({"term": self.current_term, "op": op})
            self.waiting[len(self.log)] = (self.current_term, back)
        self.tell_all()

    def answer(self, back, answer):
        if back[0] == "client":
            self.reply(back[1], answer)
        else:
            body = {"type": "forward_res", "term": self.current_term, "ref": back[2], "answer": answer}
            self.send(back[1], body)

    def on_request_vote(self, src, body):
        index = len(self.log)
        granted = (
            body["term"] == self.current_term
            and self.voted_for in (None, src)
            and body["last"] >= [self.term_at(index), index]
        )
        if granted:
            self.set_meta(self.current_term, src)
            self.wait()
        self.send(src, {"type": "request_vote_res", "term": self.current_term, "granted": granted})

    def on_request_vote_res(self, src, body):
        if self.role == "candidate" and body["granted"] and body["term"] == self.current_term:
            self.votes.add(src)
            if len(self.votes) >= self.majority:
                self.lead()

    def tell_all(self):
        for peer in self.peers:
            self.tell(peer)

    def tell(self, peer):
        prev = self.next[peer] - 1
        body = {"type": "append_entries", "term": self.current_term, "round": self.round, "commit": self.commit_index}
        body.update(prev=prev, prev_term=self.term_at(prev), entries=self.log[prev : prev + MOST])
        self.send(peer, body)

    def on_append_entries(self, src, body):
        answer = {"type": "append_entries_res", "term": self.current_term, "round": body["round"]}
        if body["term"] < self.current_term:
            self.send(src, {**answer, "ok": False, "length": len(self.log)})
            return
        self.role, self.leader = "follower", src
        self.wait()
        prev, entries = body["prev"], body["entries"]
        if prev > len(self.log) or self.term_at(prev) != body["prev_term"]:
            self.send(src, {**answer, "ok": False, "length": min(prev - 1, len(self.log))})
            return
        for index, entry in enumerate(entries, prev + 1):
            if index <= len(self.log) and self.term_at(index) != entry["term"]:
                self.truncate(index - 1)
            if index > len(self.log):
                self.append(entry)
        self.commit(min(body["commit"], prev + len(entries)))
        self.send(src, {**answer, "ok": True, "length": prev + len(entries)})

    def on_append_entries_res(self, src, body):
        if self.role != "leader" or body["term"] != self.current_term:
            return
        self.heard[src] = max(self.heard[src], body["round"])
        if body["ok"]:
            self.match[src] = max(self.match[src], body["length"])
            self.next[src] = self.match[src] + 1
            for index in range(len(self.log), self.commit_index, -1):
                stored = 1 + sum(match >= index for match in self.match.values())
                if self.term_at(index) == self.current_term and stored >= self.majority:
                    self.commit(index)
                    break
        else:
            self.next[src] = max(self.match[src] + 1, min(self.next[src] - 1, body["length"] + 1))
        if self.next[src] <= len(self.log):
            self.tell(src)
        self.serve_reads()

    # the store

    def serve_reads(self):
        """Answer the reads since which a majority was heard, once all that was committed before is known to be."""
        if not self.reads or self.term_at(self.commit_index) != self.current_term:
            return
        reads, self.reads = self.reads, []
        for read in reads:
            round_, key, back = read
            if 1 + sum(heard >= round_ for heard in self.heard.values()) < self.majority:
                self.reads.append(read)
            elif json.dumps(key) in self.store:
                self.answer(back, {"type": "read_ok", "value": self.store[json.dumps(key)]})
            else:
                self.answer(back, {"type": "error", "code": 20, "text": "no such key"})

    def commit(self, index):
        self.commit_index = max(self.commit_index, index)
        while self.applied < self.commit_index:
            self.applied += 1
            entry = self.log[self.applied - 1]
            answer = self.once(entry["op"])
            term, back = self.waiting.pop(self.applied, (None, None))
            if term == entry["term"] and answer is not None:
                self.answer(back, answer)

    def once(self, op):
        """Apply an operation, unless it, or a later one of its client, was applied."""
        if op["type"] == "nothing":
            return None
        client, number = op["client"], op["id"]
        if number is None:
            return self.execute(op)
        last, answer = self.sessions.get(client, (None, None))
        if last is None or number > last:
            answer = self.execute(op)
            self.sessions[client] = (number, answer)
        elif number < last:
            return None
        return answer

    def execute(self, op):
        key = json.dumps(op["key"])
        if op["type"] == "write":
            self.store[key] = op["value"]
            return {"type": "write_ok"}
        if key not in self.store:
            return {"type": "error", "code": 20, "text": "no such key"}
        if self.store[key] != op["from"]:
            return {"type": "error", "code": 22, "text": "it has another value"}
        self.store[key] = op["to"]
        return {"type": "cas_ok"}
