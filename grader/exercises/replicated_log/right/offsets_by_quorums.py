"""Sends through a Raft log. Committed offsets are no part of it: a majority keeps the greatest, and a list writes back
what it found. Polls are passed on to the leader, and answered from here if it does not answer."""

from grader.nodes import Node


class LogNode(Node):
    HEARTBEAT = 0.1  # seconds between two messages of the leader to one follower
    TIMEOUT = 0.3, 0.7  # seconds without the leader after which a node stands; drawn anew each time
    AGAIN = 0.2  # seconds after which a request is handed in again, perhaps to another leader

    def on_start(self):
        """First start, and again after a crash."""
        self.term, self.voted_for = self.disk.get("vote", [0, None])
        self.entries = self.disk.get("entries", [])  # [term, id, operation]; the first has index 1
        self.role, self.leader, self.votes = "follower", None, set()
        self.committed = self.applied = 0
        self.next, self.match = {}, {}
        self.logs = {}  # key -> messages, up to `applied`; a message's place is its offset
        self.offsets = self.disk.get("offsets", {})  # key -> the greatest committed offset this node was told
        self.rounds = {}  # number -> [request, "ask" or "tell", offsets, who answered]
        self.polls = {}  # number -> request that the leader was asked for
        self.waiting = {}  # id -> the request of a client that this node has to answer
        self.wait_for_leader()
        self.set_timer("again", self.AGAIN)

    def on_message(self, src, body):
        """A request of a client, or a message of another node."""
        match body["type"]:
            case "poll":
                if self.role == "leader" or self.leader is None:
                    self.reply(body, {"type": "poll_ok", "msgs": self.read(body["offsets"])})
                else:
                    number = self.random.getrandbits(50)
                    self.polls[number] = body, self.now()
                    self.send(self.leader, {"type": "read", "number": number, "offsets": body["offsets"]})
            case "read":
                self.send(src, {"type": "found", "number": body["number"], "msgs": self.read(body["offsets"])})
            case "found":
                waiting = self.polls.pop(body["number"], None)
                if waiting is not None:
                    self.reply(waiting[0], {"type": "poll_ok", "msgs": body["msgs"]})
            case "commit_offsets":
                self.begin(body, "tell", body["offsets"])
            case "list_committed_offsets":
                self.begin(body, "ask", {key: -1 for key in body["keys"]})
            case "offsets":
                self.learn(body["offsets"])
                known = {key: self.offsets.get(key, -1) for key in body["offsets"]}
                self.send(src, {"type": "known", "number": body["number"], "step": body["step"], "offsets": known})
            case "known":
                self.heard(src, body)
            case "send":
                # An id that no other request has, in whatever life of whatever node: it tells a copy from a new request.
                name = f"{self.id} {self.random.random()}"
                self.waiting[name] = body
                self.hand_in(name)
            case "propose":
                self.propose(body["id"], body["operation"])
            case kind:
                if body["term"] > self.term:
                    self.become_follower(body["term"])
                handlers = {"ask_vote": self.on_ask, "vote": self.on_vote, "append": self.on_append, "ack": self.on_ack}
                handlers[kind](src, body)

    def on_timer(self, name):
        """The timer called `name` went off."""
        if name == "election":
            self.stand()
        elif name == "again":
            self.set_timer("again", self.AGAIN)
            for each in self.waiting:
                self.hand_in(each)
            for number in self.rounds:
                self.ask(number)
            for number, (request, since) in list(self.polls.items()):
                if self.now() > since + 0.5:
                    del self.polls[number]
                    self.reply(request, {"type": "poll_ok", "msgs": self.read(request["offsets"])})
        elif self.role == "leader":
            self.set_timer("heartbeat", self.HEARTBEAT)
            for peer in self.peers:
                self.append_to(peer)

    # ---- committed offsets

    def learn(self, offsets):
        new = {key: offset for key, offset in offsets.items() if offset > self.offsets.get(key, -1)}
        if new:
            self.offsets.update(new)
            self.disk["offsets"] = self.offsets

    def begin(self, request, step, offsets):
        number = self.random.getrandbits(50)
        if step == "tell":
            self.learn(offsets)
        else:
            offsets = {key: self.offsets.get(key, -1) for key in offsets}
        self.rounds[number] = [request, step, offsets, {self.id}]
        self.ask(number)

    def ask(self, number):
        _, step, offsets, heard = self.rounds[number]
        for peer in self.peers:
            if peer not in heard:
                told = offsets if step == "tell" else {key: -1 for key in offsets}
                self.send(peer, {"type": "offsets", "number": number, "step": step, "offsets": told})

    def heard(self, src, body):
        if body["number"] not in self.rounds or self.rounds[body["number"]][1] != body["step"]:
            return
        request, step, offsets, heard = self.rounds[body["number"]]
        heard.add(src)
        if step == "ask":
            for key, offset in body["offsets"].items():
                offsets[key] = max(offsets[key], offset)
        if not self.majority(len(heard)):
            return
        if step == "ask":
            self.learn(offsets)
            self.rounds[body["number"]] = [request, "tell", offsets, {self.id}]
            self.ask(body["number"])
        else:
            del self.rounds[body["number"]]
            if request["type"] == "commit_offsets":
                self.reply(request, {"type": "commit_offsets_ok"})
            else:
                found = {key: offset for key, offset in offsets.items() if offset >= 0}
                self.reply(request, {"type": "list_committed_offsets_ok", "offsets": found})

    # ---- requests

    def hand_in(self, name):
        body = self.waiting[name]
        operation = {field: body[field] for field in ("type", "key", "msg", "offsets", "keys") if field in body}
        if self.role == "leader":
            self.propose(name, operation)
        elif self.leader is not None:
            self.send(self.leader, {"type": "propose", "id": name, "operation": operation})

    def propose(self, name, operation):
        """Append it, if this is the leader and it is not there yet. So no log ever holds a request twice."""
        if self.role == "leader" and all(entry[1] != name for entry in self.entries):
            self.entries.append([self.term, name, operation])
            self.disk["entries"] = self.entries
            for peer in self.peers:
                self.append_to(peer)

    def apply(self, operation):
        log = self.logs.setdefault(operation["key"], [])
        log.append(operation["msg"])
        return {"type": "send_ok", "offset": len(log) - 1}

    def read(self, offsets):
        return {
            key: [[offset, message] for offset, message in enumerate(self.logs.get(key, ())) if offset >= since]
            for key, since in offsets.items()
        }

    # ---- who leads

    def remember(self, term, vote):
        self.disk["vote"] = [term, vote]  # one write, before anybody hears of it
        self.term, self.voted_for = term, vote

    def wait_for_leader(self):
        self.set_timer("election", self.random.uniform(*self.TIMEOUT))

    def become_follower(self, term):
        if term > self.term:
            self.remember(term, None)
        if self.role != "follower":
            self.role, self.leader = "follower", None
            self.wait_for_leader()

    def last(self):
        return [self.entries[-1][0] if self.entries else 0, len(self.entries)]

    def stand(self):
        self.role, self.leader, self.votes = "candidate", None, {self.id}
        self.remember(self.term + 1, self.id)
        self.wait_for_leader()
        for peer in self.peers:
            self.send(peer, {"type": "ask_vote", "term": self.term, "last": self.last()})

    def on_ask(self, src, body):
        free = body["term"] == self.term and self.voted_for in (None, src)
        granted = free and body["last"] >= self.last()  # otherwise it may lack what is committed
        if granted:
            self.remember(self.term, src)
            self.wait_for_leader()
        self.send(src, {"type": "vote", "term": self.term, "granted": granted})

    def on_vote(self, src, body):
        if self.role == "candidate" and body["term"] == self.term and body["granted"]:
            self.votes.add(src)
            if self.majority(len(self.votes)):
                self.role, self.leader = "leader", self.id
                self.cancel_timer("election")
                self.next = dict.fromkeys(self.peers, len(self.entries) + 1)
                self.match = dict.fromkeys(self.peers, 0)
                self.propose(f"term {self.term}", None)  # an entry of its own term commits those of earlier terms
                self.set_timer("heartbeat", self.HEARTBEAT)

    def majority(self, count):
        return 2 * count > len(self.peers) + 1

    # ---- one log on all nodes

    def append_to(self, peer):
        before = self.next[peer] - 1
        self.send(peer, {
            "type": "append", "term": self.term, "before": before,
            "before_term": self.entries[before - 1][0] if before else 0,
            "entries": self.entries[before:], "committed": self.committed,
        })  # fmt: skip

    def on_append(self, src, body):
        matches = None
        if body["term"] == self.term:
            self.become_follower(body["term"])  # a candidate that lost
            self.leader = src
            self.wait_for_leader()
            before, new = body["before"], body["entries"]
            if before <= len(self.entries) and (not before or self.entries[before - 1][0] == body["before_term"]):
                self.adopt(before, new)
                matches = before + len(new)
                self.commit(min(body["committed"], matches))  # beyond, nothing is known to match
        self.send(src, {"type": "ack", "term": self.term, "matches": matches, "committed": self.committed})

    def adopt(self, before, new):
        for index, entry in enumerate(new, before):
            if index == len(self.entries) or self.entries[index][0] != entry[0]:  # only a conflict cuts the log
                self.entries = self.entries[:index] + new[index - before :]
                self.disk["entries"] = self.entries
                return

    def on_ack(self, src, body):
        if self.role != "leader" or body["term"] != self.term:
            return
        if body["matches"] is None:
            self.next[src] = body["committed"] + 1  # up to there all logs are the same
            return self.append_to(src)
        self.match[src] = max(self.match[src], body["matches"])
        self.next[src] = self.match[src] + 1
        for index in range(len(self.entries), self.committed, -1):
            if self.entries[index - 1][0] != self.term:
                break  # an entry of an earlier term is committed by one of this term, never by counting
            if self.majority(1 + sum(match >= index for match in self.match.values())):
                return self.commit(index)

    def commit(self, index):
        self.committed = max(self.committed, index)
        while self.applied < self.committed:
            _, name, operation = self.entries[self.applied]
            self.applied += 1
            answer = self.apply(operation) if operation else None
            request = self.waiting.pop(name, None)
            if request is not None:
                self.reply(request, answer)
