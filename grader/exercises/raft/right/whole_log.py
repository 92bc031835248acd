"""Every append_entries brings the whole log; elections and leading are generators that are sent what happens."""

from grader.nodes import Node


class RaftNode(Node):
    def on_start(self):
        self.role, self.commit_index, self.values, self.fresh = "follower", 0, [{}], {}
        self.current_term, self.choice = self.disk.get("promise", [0, ""])
        self.log = self.disk.get("log", [])
        self.go(self.following())

    # a state is a generator: it yields to be sent (kind, source, body), and returns the next state

    def go(self, state):
        self.state = state
        next(state)

    def happen(self, *what):
        try:
            self.state.send(what)
        except StopIteration as stop:
            self.go(stop.value)

    def on_timer(self, name):
        self.happen(name, None, None)

    def on_message(self, src, body):
        kind = body["type"]
        if kind in ("read", "write", "cas"):
            self.happen("client", src, body)
            return
        term = body["term"]
        if term > self.current_term:
            self.promise(term, "")
            self.cancel_timer("beat")
            self.go(self.following())
        if kind == "request_vote":
            up_to_date = (body["last"], body["length"]) >= self.position()
            yes = term == self.current_term and self.choice in ("", src) and up_to_date
            if yes:
                self.promise(term, src)
                self.happen("patience", None, None)
            self.send(src, {"type": "request_vote_res", "term": self.current_term, "yes": yes})
        elif kind == "append_entries":
            if term == self.current_term:
                if self.role == "candidate":
                    self.go(self.following())
                self.happen("patience", None, None)
                self.take(body["log"], body["commit"])
            self.send(src, {"type": "append_entries_res", "term": self.current_term, "asked": term, "have": len(body["log"])})
        elif term == self.current_term:
            self.happen(kind, src, body)

    def promise(self, term, choice):
        self.disk["promise"] = [term, choice]
        self.current_term, self.choice = term, choice

    def position(self):
        return (self.log[-1]["term"] if self.log else 0), len(self.log)

    def refuse(self, body):
        self.reply(body, {"type": "error", "code": 11, "text": "no leader here"})

    def following(self):
        self.role = "follower"
        self.set_timer("election", self.random.uniform(0.25, 0.55))
        while True:
            kind, _, body = yield
            if kind == "election":
                return self.standing()
            if kind == "patience":
                self.set_timer("election", self.random.uniform(0.25, 0.55))
            if kind == "client":
                self.refuse(body)

    def standing(self):
        self.role = "candidate"
        self.promise(self.current_term + 1, self.id)
        last, length = self.position()
        for peer in self.peers:
            self.send(peer, {"type": "request_vote", "term": self.current_term, "last": last, "length": length})
        self.set_timer("election", self.random.uniform(0.25, 0.55))
        against = set(self.peers)
        while 2 * len(against) >= len(self.peers) + 1:
            kind, src, body = yield
            if kind == "election":
                return self.standing()
            if kind == "request_vote_res" and body["yes"]:
                against.discard(src)
            if kind == "client":
                self.refuse(body)
        return self.leading()

    def leading(self):
        self.role = "leader"
        self.cancel_timer("election")
        self.fresh = {}
        have = dict.fromkeys(self.peers, 0)
        self.spread()
        while True:
            kind, src, body = yield
            if kind == "beat":
                self.spread()
            elif kind == "client":
                self.log.append({"term": self.current_term, "do": body})
                self.disk["log"] = self.log
                self.fresh[len(self.log)] = body
                self.spread()
            elif kind == "append_entries_res" and body["asked"] == self.current_term:
                have[src] = max(have[src], body["have"])
                counts = sorted([*have.values(), len(self.log)])
                index = counts[(len(counts) - 1) // 2]
                if index and self.log[index - 1]["term"] == self.current_term:
                    self.commit(index)

    def spread(self):
        self.set_timer("beat", 0.1)
        for peer in self.peers:
            self.send(peer, {"type": "append_entries", "term": self.current_term, "log": self.log, "commit": self.commit_index})

    def take(self, log, commit):
        same = 0
        while same < min(len(log), len(self.log)) and log[same]["term"] == self.log[same]["term"]:
            same += 1
        if same < len(log):
            self.log = log
            self.disk["log"] = log
        self.commit(min(commit, len(log)))

    def commit(self, index):
        while self.commit_index < index:
            entry = self.log[self.commit_index]["do"]
            values = dict(self.values[0])
            answer = self.perform(entry, values)
            self.values[0] = values
            self.commit_index += 1
            request = self.fresh.pop(self.commit_index, None)
            if request is not None and self.role == "leader":
                self.reply(request, answer)

    def perform(self, what, values):
        key, kind = what["key"], what["type"]
        if kind != "write" and key not in values:
            return {"type": "error", "code": 20, "text": "not found"}
        if kind == "cas" and values[key] != what["from"]:
            return {"type": "error", "code": 22, "text": "precondition failed"}
        if kind == "read":
            return {"type": "read_ok", "value": values[key]}
        values[key] = what["value"] if kind == "write" else what["to"]
        return {"type": kind + "_ok"}
