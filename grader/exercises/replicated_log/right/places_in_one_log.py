"""Raft with pre-vote, one disk key per log entry, several operations carried out by every node; the asked node answers; polls are local; offsets are places in the global log, hence sparse."""

from bisect import bisect_left

from grader.nodes import Node


class Journal:
    """Entries under keys of their own; only those up to `end` count."""

    def __init__(self, disk):
        self.disk = disk
        self.rows = [disk[f"entry {i}"] for i in range(1, disk.get("end", 0) + 1)]

    def __len__(self):
        return len(self.rows)

    def term(self, index):
        return self.rows[index - 1]["term"] if index > 0 else 0

    def freshness(self):
        return [self.term(len(self.rows)), len(self.rows)]

    def put(self, start, rows):
        """Replace everything from index `start` on."""
        if start <= len(self.rows):
            self.disk["end"] = start - 1
        for index, row in enumerate(rows, start):
            self.disk[f"entry {index}"] = row
        self.disk["end"] = start - 1 + len(rows)
        self.rows[start - 1 :] = rows


class LogNode(Node):
    def on_start(self):
        ballot = self.disk.get("ballot", {"term": 0, "for": None})
        self.current_term, self.ballot = ballot["term"], ballot["for"]
        self.journal = Journal(self.disk)
        self.role, self.leader = "follower", None
        self.commit_index = self.carried_out = 0
        self.logs, self.committed, self.executed = {}, {}, {}
        self.mine = {}  # name -> [request, tries left]
        self.ayes, self.supporters = set(), set()
        self.life, self.number = self.random.getrandbits(60), 0
        self.rest()

    def new_name(self):
        self.number += 1
        return f"{self.id} {self.life} {self.number}"

    def tail(self, key, at):
        log = self.logs.get(key, [])
        return log[bisect_left(log, at, key=lambda pair: pair[0]) :]

    def rest(self):
        self.set_timer("silence", 0.25 + 0.3 * self.random.random())

    def everybody(self, **body):
        for peer in self.peers:
            self.send(peer, {**body, "term": self.current_term})

    def enough(self, people):
        return 2 * len(people) > len(self.peers) + 1

    def believe(self, term, choice):
        self.current_term, self.ballot = term, choice
        self.disk["ballot"] = {"term": term, "for": choice}

    # -- time
    def on_timer(self, name):
        if name == "silence" and self.role != "leader":
            self.leader = None
            self.supporters = {self.id}
            self.rest()
            self.everybody(type="pre_vote", fresh=self.journal.freshness(), next=self.current_term + 1)
        elif name == "pulse" and self.role == "leader":
            for peer in self.peers:
                self.feed(peer)
            self.set_timer("pulse", 0.07)
        elif name == "again":
            for key in list(self.mine):
                self.mine[key][1] -= 1
                if self.mine[key][1] < 0:
                    del self.mine[key]
                else:
                    self.hand_in(key)
            if self.mine:
                self.set_timer("again", 0.25)

    # -- requests
    def on_message(self, src, body):
        kind = body["type"]
        if kind == "poll":
            self.reply(
                body, {"type": "poll_ok", "msgs": {key: self.tail(key, at) for key, at in body["offsets"].items()}}
            )
        elif kind in ("send", "commit_offsets", "list_committed_offsets"):
            key = self.new_name()
            self.mine[key] = [body, 18]
            self.hand_in(key)
            self.set_timer("again", 0.25)
        elif kind == "hand_in":
            self.enter(body["name"], body["what"])
        elif kind == "pre_vote":
            if (
                self.leader is None
                and self.role != "leader"
                and body["fresh"] >= self.journal.freshness()
                and body["next"] > self.current_term
            ):
                self.send(src, {"type": "pre_vote_res", "next": body["next"], "term": self.current_term})
        elif kind == "pre_vote_res":
            if self.role != "leader" and self.leader is None and body["next"] == self.current_term + 1:
                self.supporters.add(src)
                if self.enough(self.supporters):
                    self.campaign()
        else:
            if body["term"] > self.current_term:
                self.believe(body["term"], None)
                self.follow(None)
            {
                "request_vote": self.asked_to_vote,
                "request_vote_res": self.voted,
                "append_entries": self.fed,
                "append_entries_res": self.digested,
            }[kind](src, body)

    def hand_in(self, key):
        request = self.mine[key][0]
        what = {field: value for field, value in request.items() if field != "msg_id"}
        if self.role == "leader":
            self.enter(key, what)
        elif self.leader is not None:
            self.send(self.leader, {"type": "hand_in", "name": key, "what": what})

    def enter(self, key, what):
        if self.role != "leader" or key in self.executed or any(row["name"] == key for row in self.journal.rows):
            return
        self.extend(key, what)

    def extend(self, key, what):
        self.journal.put(len(self.journal) + 1, [{"term": self.current_term, "name": key, "what": what}])
        for peer in self.peers:
            self.feed(peer)

    # -- elections
    def follow(self, leader):
        if self.role == "leader":
            self.cancel_timer("pulse")
            self.rest()
        self.role, self.leader = "follower", leader
        self.supporters = set()

    def campaign(self):
        self.role, self.leader = "candidate", None
        self.supporters = set()
        self.believe(self.current_term + 1, self.id)
        self.ayes = {self.id}
        self.rest()
        self.everybody(type="request_vote", fresh=self.journal.freshness())

    def asked_to_vote(self, src, body):
        yes = (
            body["term"] == self.current_term
            and self.ballot in (None, src)
            and body["fresh"] >= self.journal.freshness()
        )
        if yes:
            if self.ballot is None:
                self.believe(self.current_term, src)
            self.rest()
        self.send(src, {"type": "request_vote_res", "term": self.current_term, "yes": yes})

    def voted(self, src, body):
        if self.role != "candidate" or body["term"] != self.current_term or not body["yes"]:
            return
        self.ayes.add(src)
        if self.enough(self.ayes):
            self.role, self.leader = "leader", self.id
            self.cancel_timer("silence")
            self.sent_to = {peer: len(self.journal) for peer in self.peers}
            self.has = dict.fromkeys(self.peers, 0)
            self.set_timer("pulse", 0.07)
            self.extend("", None)
            for key in list(self.mine):
                self.hand_in(key)

    # -- replication
    def feed(self, peer):
        at = self.sent_to[peer]
        self.send(
            peer,
            {
                "type": "append_entries",
                "term": self.current_term,
                "at": at,
                "at_term": self.journal.term(at),
                "rows": self.journal.rows[at : at + 64],
                "committed": self.commit_index,
            },
        )

    def fed(self, src, body):
        if body["term"] < self.current_term:
            self.send(src, {"type": "append_entries_res", "term": self.current_term, "has": None, "try": 0})
            return
        news = self.leader != src
        self.follow(src)
        self.rest()
        at, rows = body["at"], body["rows"]
        if at > len(self.journal) or self.journal.term(at) != body["at_term"]:
            back = min(at - 1, len(self.journal))
            self.send(
                src, {"type": "append_entries_res", "term": self.current_term, "has": None, "try": back, "at": at}
            )
        else:
            same = 0
            while (
                same < len(rows)
                and at + same < len(self.journal)
                and self.journal.term(at + same + 1) == rows[same]["term"]
            ):
                same += 1
            if same < len(rows):
                self.journal.put(at + same + 1, rows[same:])
            has = at + len(rows)
            self.learn(min(has, body["committed"]))
            self.send(src, {"type": "append_entries_res", "term": self.current_term, "has": has, "try": 0})
        if news:
            for key in list(self.mine):
                self.hand_in(key)

    def digested(self, src, body):
        if self.role != "leader" or body["term"] != self.current_term:
            return
        if body["has"] is None:
            if body.get("at") == self.sent_to[src]:
                self.sent_to[src] = max(self.has[src], body["try"])
                self.feed(src)
            return
        self.has[src] = max(self.has[src], body["has"])
        self.sent_to[src] = max(self.sent_to[src], self.has[src])
        for index in range(len(self.journal), self.commit_index, -1):
            if self.journal.term(index) != self.current_term:
                break
            if self.enough([self.id, *(peer for peer in self.peers if self.has[peer] >= index)]):
                self.learn(index)
                break

    def learn(self, index):
        self.commit_index = max(self.commit_index, index)
        while self.carried_out < self.commit_index:
            self.carried_out += 1
            row = self.journal.rows[self.carried_out - 1]
            key = row["name"]
            if row["what"] is None:
                continue
            if key not in self.executed:
                self.executed[key] = self.carry_out(**row["what"])
            if key in self.mine:
                self.reply(self.mine.pop(key)[0], self.executed[key])

    def carry_out(self, type, key=None, msg=None, offsets=None, keys=(), **_):
        if type == "send":
            offset = self.carried_out
            self.logs.setdefault(key, []).append([offset, msg])
            return {"type": "send_ok", "offset": offset}
        if type == "commit_offsets":
            for name, offset in offsets.items():
                self.committed[name] = max(offset, self.committed.get(name, offset))
            return {"type": "commit_offsets_ok"}
        shown = {name: self.committed[name] for name in keys if name in self.committed}
        return {"type": "list_committed_offsets_ok", "offsets": shown}
