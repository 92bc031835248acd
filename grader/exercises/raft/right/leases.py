"""One tick for all times, by now(); a leader with a lease answers reads by itself; what is asked early waits."""

from grader.nodes import Node

TICK = 0.02
BEAT = 0.08
LEASE = 0.2  # a voter that heard the leader less than QUIET ago votes for nobody else
QUIET = 0.25


class RaftNode(Node):
    def on_start(self):
        state = self.disk.get("raft", {})
        self.current_term = state.get("term", 0)
        self.voted_for = state.get("voted_for")
        self.log = state.get("log", [])  # lists [term, client, msg_id, body]
        self.role = "follower"
        self.commit_index = -1  # of the last entry that is committed; the first is 0
        self.done = -1
        self.data = {}
        self.born = self.heard = self.now()
        self.patience = self.draw()
        self.reads = []
        self.set_timer("tick", TICK)

    def draw(self):
        return QUIET + 0.05 + self.random.random() * 0.3

    def persist(self):
        self.disk["raft"] = {"term": self.current_term, "voted_for": self.voted_for, "log": self.log}

    def on_timer(self, name):
        self.set_timer("tick", TICK)
        now = self.now()
        if self.role == "leader":
            if now - self.beaten >= BEAT:
                self.broadcast()
            self.reads = [one for one in self.reads if not self.try_read(*one)]
        elif now - self.heard > self.patience:
            self.run_for_office()

    def run_for_office(self):
        self.current_term += 1
        self.voted_for = self.id
        self.persist()
        self.role = "candidate"
        self.granted = [self.id]
        self.heard = self.now()
        self.patience = self.draw()
        for peer in self.peers:
            self.send(peer, dict(type="request_vote", term=self.current_term, size=len(self.log), of=self.last_term()))

    def last_term(self):
        return self.log[-1][0] if self.log else -1

    def on_message(self, src, body):
        handler = {
            "request_vote": self.consider, "request_vote_res": self.count,
            "append_entries": self.follow, "append_entries_res": self.progress,
        }.get(body["type"])
        if handler is None:
            return self.serve(src, body)
        if body["term"] > self.current_term:
            if body["type"] == "request_vote" and (self.role == "leader" and self.lease() or self.recently_led()):
                return None
            self.retire(body["term"])
        return handler(src, body)

    def recently_led(self):
        return self.role == "follower" and self.now() - max(self.heard_leader(), self.born) < QUIET

    def heard_leader(self):
        return getattr(self, "led", -1e9)

    def retire(self, term):
        if term > self.current_term:
            self.current_term, self.voted_for = term, None
            self.persist()
        if self.role == "leader":
            self.heard = self.now()
            self.patience = self.draw()
        self.role = "follower"

    def consider(self, src, body):
        yes = body["term"] == self.current_term and self.voted_for in (None, src)
        yes = yes and not (self.last_term() > body["of"] or (self.last_term() == body["of"] and len(self.log) > body["size"]))
        if yes:
            self.voted_for = src
            self.persist()
            self.heard = self.now()
        self.reply(body, dict(type="request_vote_res", term=self.current_term, yes=yes))

    def count(self, src, body):
        if self.role != "candidate" or not body["yes"] or body["term"] < self.current_term or src in self.granted:
            return
        self.granted.append(src)
        if len(self.granted) > len(self.peers) // 2 + (len(self.peers) % 2):
            self.role = "leader"
            self.peer = {p: dict(sent=len(self.log), match=-1, sure=-1e9) for p in self.peers}
            self.log.append([self.current_term, None, None, None])
            self.persist()
            self.broadcast()

    def broadcast(self):
        self.beaten = self.now()
        for p in self.peers:
            self.replicate(p)

    def replicate(self, p):
        at = self.peer[p]["sent"]
        self.send(p, dict(type="append_entries", term=self.current_term, at=at, after=self.log[at - 1][0] if at else -1,
                          log=self.log[at:], commit=self.commit_index, clock=self.now()))

    def follow(self, src, body):
        answer = dict(type="append_entries_res", term=self.current_term, match=None, clock=body["clock"], at=body["at"])
        if body["term"] == self.current_term:
            self.retire(body["term"])
            self.boss = src
            self.led = self.heard = self.now()
            at = body["at"]
            if at == 0 or (len(self.log) >= at and self.log[at - 1][0] == body["after"]):
                merged = self.log[at:]
                for place, entry in enumerate(body["log"]):
                    if place >= len(merged) or merged[place][0] != entry[0]:
                        self.log[at:] = merged[:place] + body["log"][place:]
                        self.persist()
                        break
                answer["match"] = at + len(body["log"]) - 1
                self.learn(min(answer["match"], body["commit"]))
        self.reply(body, answer)

    def progress(self, src, body):
        if self.role != "leader" or body["term"] != self.current_term:
            return
        one = self.peer[src]
        one["sure"] = max(one["sure"], body["clock"])
        if body["match"] is None:
            one["sent"] = max(0, one["match"] + 1, body["at"] // 2 if body["at"] < 4 else body["at"] - 4)
            return self.replicate(src)
        one["match"] = max(one["match"], body["match"])
        one["sent"] = one["match"] + 1
        everyone = sorted([other["match"] for other in self.peer.values()] + [len(self.log) - 1])
        n = everyone[len(everyone) - (len(everyone) // 2 + 1)]
        if n >= 0 and self.log[n][0] == self.current_term:
            self.learn(n)

    def lease(self):
        sure = sorted([other["sure"] for other in self.peer.values()] + [self.now()])
        return sure[len(sure) - (len(sure) // 2 + 1)] + LEASE > self.now()

    def learn(self, n):
        self.commit_index = max(self.commit_index, n)
        while self.done < self.commit_index:
            self.done += 1
            _, client, number, body = self.log[self.done]
            if body is not None:
                answer = self.execute(body)
                if self.role == "leader":
                    self.send(client, dict(answer, in_reply_to=number))

    def execute(self, body):
        key, what = body["key"], body["type"]
        old = self.data.get(key)
        if what == "cas" and key not in self.data:
            return dict(type="error", code=20, text="no key")
        if what == "cas" and old != body["from"]:
            return dict(type="error", code=22, text=f"{old}")
        self.data[key] = body["value"] if what == "write" else body["to"]
        return dict(type=what + "_ok")

    def serve(self, src, body):
        if self.role != "leader":
            self.reply(body, dict(type="error", code=11, text="not me"))
        elif body["type"] == "read":
            if not self.try_read(len(self.log) - 1, body):
                self.reads.append((len(self.log) - 1, body))
        else:
            self.log.append([self.current_term, src, body["msg_id"], body])
            self.persist()
            self.broadcast()

    def try_read(self, index, body):
        """Whether the read could be answered: all entries that were there are applied, and nobody else can lead."""
        if self.role != "leader" or self.done < index or not self.lease():
            return False
        if body["key"] in self.data:
            self.reply(body, dict(type="read_ok", value=self.data[body["key"]]))
        else:
            self.reply(body, dict(type="error", code=20, text="no key"))
        return True
