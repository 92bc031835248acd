from grader.nodes import Node

HEARTBEAT = 0.1  # seconds between two append_entries to one follower
TIMEOUT = 0.25, 0.5  # an election timeout is drawn from here; more than a heartbeat and its delay


class RaftNode(Node):
    """One of N replicas of a key-value store (Ongaro and Ousterhout 2014, "In search of an understandable consensus
    algorithm", figure 2). A read is an entry of the log like any other: who can commit it is the leader."""

    def on_start(self):
        # Durable, each in one write: the term together with the vote in it, and the log, whose first index is 1.
        self.current_term, self.voted_for = self.disk.get("vote", [0, None])
        self.log = self.disk.get("log", [])  # [term, operation]
        self.role, self.leader, self.votes = "follower", None, set()
        self.commit_index = self.applied = 0
        self.store = {}  # what the log says up to `applied`
        self.waiting = {}  # index -> (term, request): whom to answer when that entry is applied
        self.next, self.match = {}, {}
        self.wait_for_leader()

    def on_message(self, src, body):
        if body["type"] in ("read", "write", "cas"):
            return self.on_request(body)
        if body["term"] > self.current_term:
            self.become_follower(body["term"])
        {
            "request_vote": self.on_request_vote, "request_vote_res": self.on_vote,
            "append_entries": self.on_append, "append_entries_res": self.on_appended,
        }[body["type"]](src, body)

    def on_timer(self, name):
        if name == "election":
            self.stand()
        elif self.role == "leader":
            self.set_timer("heartbeat", HEARTBEAT)
            for peer in self.peers:
                self.append_to(peer)

    # ---- elections

    def last(self):
        """Term and index of the last entry: who has the greater pair is more up to date."""
        return [self.log[-1][0] if self.log else 0, len(self.log)]

    def remember(self, term, vote):
        self.disk["vote"] = [term, vote]  # before anybody hears of it
        self.current_term, self.voted_for = term, vote

    def wait_for_leader(self):
        self.set_timer("election", self.random.uniform(*TIMEOUT))

    def become_follower(self, term):
        if term > self.current_term:
            self.remember(term, None)
        if self.role != "follower":
            self.role, self.leader = "follower", None
            self.wait_for_leader()

    def stand(self):
        self.role, self.leader, self.votes = "candidate", None, {self.id}
        self.remember(self.current_term + 1, self.id)
        self.wait_for_leader()
        for peer in self.peers:
            self.send(peer, {"type": "request_vote", "term": self.current_term, "last": self.last()})

    def on_request_vote(self, src, body):
        free = body["term"] == self.current_term and self.voted_for in (None, src)
        granted = free and body["last"] >= self.last()  # else it may lack what is committed
        if granted:
            self.remember(self.current_term, src)
            self.wait_for_leader()
        self.send(src, {"type": "request_vote_res", "term": self.current_term, "granted": granted})

    def on_vote(self, src, body):
        if self.role != "candidate" or body["term"] != self.current_term or not body["granted"]:
            return
        self.votes.add(src)
        if self.majority(len(self.votes)):
            self.role, self.leader = "leader", self.id
            self.cancel_timer("election")
            self.next = dict.fromkeys(self.peers, len(self.log) + 1)
            self.match = dict.fromkeys(self.peers, 0)
            self.on_timer("heartbeat")

    def majority(self, count):
        return 2 * count > len(self.peers) + 1

    # ---- the log

    def append_to(self, peer):
        before = self.next[peer] - 1
        self.send(peer, {
            "type": "append_entries", "term": self.current_term, "before": before,
            "before_term": self.log[before - 1][0] if before else 0,
            "entries": self.log[before:], "commit": self.commit_index,
        })  # fmt: skip

    def on_append(self, src, body):
        answer = {"type": "append_entries_res", "term": self.current_term, "matches": None}
        if body["term"] == self.current_term:
            self.become_follower(body["term"])  # a candidate that lost
            self.leader = src
            self.wait_for_leader()
            before, entries = body["before"], body["entries"]
            if before <= len(self.log) and (not before or self.log[before - 1][0] == body["before_term"]):
                self.adopt(before, entries)
                answer["matches"] = before + len(entries)
                self.commit(min(body["commit"], before + len(entries)))  # beyond, nothing is known to match
        answer["known"] = self.commit_index  # up to here every leader's log is the same
        self.send(src, answer)

    def adopt(self, before, entries):
        """Only a conflict cuts the log: an append_entries that comes late holds less than is known already."""
        for index, entry in enumerate(entries, before):
            if index == len(self.log) or self.log[index][0] != entry[0]:
                self.log = self.log[:index] + entries[index - before :]
                self.disk["log"] = self.log
                return

    def on_appended(self, src, body):
        if self.role != "leader" or body["term"] != self.current_term:
            return
        if body["matches"] is None:
            self.next[src] = body["known"] + 1
            return self.append_to(src)
        self.match[src] = max(self.match[src], body["matches"])
        self.next[src] = self.match[src] + 1
        for index in range(len(self.log), self.commit_index, -1):
            if self.log[index - 1][0] != self.current_term:
                break  # an entry of an earlier term is committed by one of this term, never by counting
            if self.majority(1 + sum(match >= index for match in self.match.values())):
                return self.commit(index)

    def commit(self, index):
        self.commit_index = max(self.commit_index, index)
        while self.applied < self.commit_index:
            term, operation = self.log[self.applied]
            self.applied += 1
            answer = self.apply(operation)
            asked_in, request = self.waiting.pop(self.applied, (None, None))
            if asked_in == term:
                self.reply(request, answer)

    # ---- the store

    def on_request(self, body):
        if self.role != "leader":
            text = f"{self.id} is not the leader, {self.leader} may be"
            return self.reply(body, {"type": "error", "code": 11, "text": text})
        operation = {name: body[name] for name in ("type", "key", "value", "from", "to") if name in body}
        self.log.append([self.current_term, operation])
        self.disk["log"] = self.log
        self.waiting[len(self.log)] = self.current_term, body
        for peer in self.peers:
            self.append_to(peer)

    def apply(self, operation):
        kind, key = operation["type"], operation["key"]
        if kind == "write":
            self.store[key] = operation["value"]
        elif key not in self.store:
            return {"type": "error", "code": 20, "text": f"there is no key {key!r}"}
        elif kind == "read":
            return {"type": "read_ok", "value": self.store[key]}
        elif self.store[key] != operation["from"]:
            return {"type": "error", "code": 22, "text": f"the value is {self.store[key]!r}"}
        else:
            self.store[key] = operation["to"]
        return {"type": f"{kind}_ok"}
