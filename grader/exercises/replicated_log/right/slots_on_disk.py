"""One log by ballots, one slot on disk for each entry, and their number last: a change of leaders removes what it must by
writing a smaller number. A request is handed in once more by a timer of its own."""

from grader.nodes import Node


class LogNode(Node):
    TICK, SILENT = 0.08, (0.35, 0.9)

    def on_start(self):
        self.promised = self.disk.get("promised", [0, ""])
        self.log = []  # [ballot, command], accepted
        for slot in range(self.disk.get("length", 0)):
            self.log.append(self.disk[f"slot{slot}"])
        self.majority = (len(self.peers) + 1) // 2 + 1
        self.chosen = self.done = 0
        self.leader, self.state = None, "follower"
        self.votes, self.match, self.next = {}, {}, {}
        self.logs, self.offsets, self.names = {}, {}, {}
        self.pending = {}
        self.rest()

    def rest(self):
        low, high = self.SILENT
        self.set_timer("silent", low + (high - low) * self.random.random())

    # the log on disk: slot first, length last; what is beyond the length is not there

    def put(self, slot, entry):
        if slot < len(self.log):
            if self.log[slot] == entry:
                return
            self.disk["length"] = slot
            del self.log[slot:]
        self.disk[f"slot{slot}"] = entry
        self.log.append(entry)
        self.disk["length"] = slot + 1

    def last(self):
        return [self.log[-1][0] if self.log else [0, ""], len(self.log)]

    def promise(self, ballot):
        if ballot > self.promised:
            self.disk["promised"] = self.promised = ballot
            if self.state == "leader":
                self.rest()
            self.state, self.leader = "follower", None

    # timers

    def on_timer(self, name):
        if name == "silent":
            self.promise([self.promised[0] + 1, self.id])
            self.state, self.votes = "candidate", {self.id}
            for peer in self.peers:
                self.send(peer, {"type": "prepare", "ballot": self.promised, "last": self.last()})
            self.rest()
        elif name == "tick" and self.state == "leader":
            for peer in self.peers:
                self.feed(peer)
            self.set_timer("tick", self.TICK)
        elif name.startswith("again "):
            self.hand_in(name.removeprefix("again "))

    # Paxos

    def on_message(self, src, body):
        getattr(self, "on_" + body["type"])(src, body)

    def on_prepare(self, src, body):
        if body["ballot"] > self.promised:
            self.promise(body["ballot"])
            if body["last"] >= self.last():
                self.rest()
                self.send(src, {"type": "promised", "ballot": self.promised})

    def on_promised(self, src, body):
        if self.state == "candidate" and body["ballot"] == self.promised:
            self.votes.add(src)
            if len(self.votes) >= self.majority:
                self.state, self.leader = "leader", self.id
                self.cancel_timer("silent")
                self.match = dict.fromkeys(self.peers, 0)
                self.next = dict.fromkeys(self.peers, len(self.log))
                self.put(len(self.log), [self.promised, None])
                self.on_timer("tick")
                for name in list(self.pending):
                    self.hand_in(name)

    def feed(self, peer):
        start = self.next[peer]
        self.send(peer, {
            "type": "accept", "ballot": self.promised, "start": start, "chosen": self.chosen,
            "before": self.log[start - 1][0] if start else None, "entries": self.log[start:start + 50],
        })

    def on_accept(self, src, body):
        if body["ballot"] < self.promised:
            return
        self.promise(body["ballot"])
        if self.leader != src:
            self.leader = src
            for name in list(self.pending):
                self.hand_in(name)
        self.rest()
        start, entries = body["start"], body["entries"]
        if start > len(self.log) or (start and self.log[start - 1][0] != body["before"]):
            self.send(src, {"type": "lacks", "ballot": body["ballot"], "have": min(len(self.log), start - 1)})
            return
        for slot, entry in enumerate(entries, start):
            if slot >= len(self.log) or self.log[slot][0] != entry[0]:
                self.put(slot, entry)
        upto = start + len(entries)
        self.learn(min(body["chosen"], upto))
        self.send(src, {"type": "accepted", "ballot": body["ballot"], "upto": upto})

    def on_lacks(self, src, body):
        if self.state == "leader" and body["ballot"] == self.promised:
            self.next[src] = max(self.match[src], min(self.next[src], body["have"]))
            self.feed(src)

    def on_accepted(self, src, body):
        if self.state == "leader" and body["ballot"] == self.promised:
            self.match[src] = max(self.match[src], body["upto"])
            self.next[src] = max(self.next[src], self.match[src])
            upto = sorted([len(self.log), *self.match.values()])[-self.majority]
            if upto > self.chosen and self.log[upto - 1][0] == self.promised:
                self.learn(upto)
                for peer in self.peers:
                    self.feed(peer)

    # what was chosen

    def learn(self, upto):
        self.chosen = max(self.chosen, upto)
        while self.done < self.chosen:
            command = self.log[self.done][1]
            self.done += 1
            if command is not None and command["name"] not in self.names:
                self.names[command["name"]] = True
                self.carry_out(command)

    def carry_out(self, command):
        request, answer = command["request"], None
        if request["type"] == "send":
            log = self.logs.setdefault(request["key"], [])
            log.append(request["msg"])
            answer = {"type": "send_ok", "offset": len(log) - 1}
        elif request["type"] == "commit_offsets":
            for key, offset in request["offsets"].items():
                self.offsets[key] = max(offset, self.offsets.get(key, offset))
            answer = {"type": "commit_offsets_ok"}
        else:
            found = {key: self.offsets[key] for key in request["keys"] if key in self.offsets}
            answer = {"type": "list_committed_offsets_ok", "offsets": found}
        asked = self.pending.pop(command["name"], None)
        if asked is not None:
            self.cancel_timer("again " + command["name"])
            self.reply(asked, answer)

    # requests

    def hand_in(self, name):
        if name not in self.pending:
            return
        asked = self.pending[name]
        command = {"name": name, "request": {k: asked[k] for k in asked if k in ("type", "key", "msg", "offsets", "keys")}}
        if self.state == "leader":
            self.on_hand(self.id, {"command": command})
        elif self.leader is not None:
            self.send(self.leader, {"type": "hand", "command": command})
        self.set_timer("again " + name, 0.25)

    def on_hand(self, src, body):
        name = body["command"]["name"]
        if self.state != "leader" or name in self.names:
            return
        if any(entry[1] is not None and entry[1]["name"] == name for entry in self.log[self.done:]):
            return
        self.put(len(self.log), [self.promised, body["command"]])
        for peer in self.peers:
            self.feed(peer)

    def on_send(self, src, body):
        name = f"{self.id} {self.random.random()} {body['msg_id']}"
        self.pending[name] = body
        self.hand_in(name)

    on_commit_offsets = on_list_committed_offsets = on_send

    def on_poll(self, src, body):
        found = {}
        for key, start in body["offsets"].items():
            log = self.logs.get(key, [])
            found[key] = [[offset, log[offset]] for offset in range(start, len(log))]
        self.reply(body, {"type": "poll_ok", "msgs": found})
