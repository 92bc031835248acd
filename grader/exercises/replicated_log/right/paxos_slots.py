"""Paxos for each slot of one list; batches. Who is up and has the least name proposes, which only keeps nodes from getting
in each other's way: safety is Paxos's. What is chosen spreads by gossip."""

from grader.nodes import Node


class LogNode(Node):
    def on_start(self):
        self.size = len(self.peers) + 1
        self.promised = self.disk.get("promised", 0)  # one ballot for all slots
        self.accepted = {int(s): v for s, v in self.disk.get("accepted", {}).items()}  # slot -> [ballot, batch]
        self.chosen = self.disk.get("chosen", [])
        self.requests = {}  # id -> (request, operation)
        self.queue = {}  # id -> operation, what others want proposed
        self.heard = {}
        self.ballot, self.state = 0, None
        self.rebuild()
        self.set_timer("gossip", 0.05)
        self.set_timer("propose", 0.3)

    def rebuild(self):
        self.done, self.logs, self.offsets, self.executed = set(), {}, {}, 0
        self.execute()

    # ---- clients

    def on_message(self, src, body):
        kind = body["type"]
        if kind == "poll":
            found = {
                key: list(map(list, enumerate(self.logs.get(key, []))))[since:]
                for key, since in body["offsets"].items()
            }
            self.reply(body, {"type": "poll_ok", "msgs": {key: pairs for key, pairs in found.items() if pairs}})
        elif kind in ("send", "commit_offsets", "list_committed_offsets"):
            name = f"{self.id}-{self.random.getrandbits(64):x}"
            operation = [kind, body.get("key"), body.get("msg"), body.get("offsets"), body.get("keys")]
            self.requests[name] = body, operation
            self.hand_on()
        else:
            self.heard[src] = self.now()
            getattr(self, kind)(src, body)

    def hand_on(self):
        mine = {name: operation for name, (_, operation) in self.requests.items()}
        if not mine:
            return
        boss = min([self.id, *(peer for peer, when in self.heard.items() if self.now() - when < 0.4)])
        if boss == self.id:
            self.queue.update(mine)
            self.go()
        else:
            self.send(boss, {"type": "want", "operations": mine})

    def want(self, src, body):
        self.queue.update(body["operations"])
        self.go()

    def on_timer(self, name):
        if name == "gossip":
            self.set_timer("gossip", 0.1)
            for peer in self.peers:
                self.send(peer, {"type": "have", "count": len(self.chosen)})
            return
        self.set_timer("propose", self.random.uniform(0.25, 0.5))
        self.state = None  # whatever was going on has taken too long
        self.hand_on()
        self.go()

    def have(self, src, body):
        if body["count"] < len(self.chosen):
            self.send(src, {"type": "these", "since": body["count"], "batches": self.chosen[body["count"] :]})

    def these(self, src, body):
        new = body["batches"][len(self.chosen) - body["since"] :] if body["since"] <= len(self.chosen) else []
        if new:
            self.learn(new)

    # ---- Paxos

    def go(self):
        self.queue = {name: operation for name, operation in self.queue.items() if name not in self.done}
        if self.state is not None or not self.queue:
            return
        place = sorted([self.id, *self.peers]).index(self.id)
        self.ballot = (max(self.ballot, self.promised) // self.size + 1) * self.size + place
        self.slot, self.state, self.yes, self.best = len(self.chosen), "asking", set(), [-1, None]
        self.everybody({"type": "prepare", "ballot": self.ballot, "slot": self.slot})

    def everybody(self, body):
        for peer in self.peers:
            self.send(peer, body)
        getattr(self, body["type"])(self.id, body)

    def answer(self, src, body):
        if src == self.id:
            getattr(self, body["type"])(src, body)
        else:
            self.send(src, body)

    def prepare(self, src, body):
        if body["ballot"] > self.promised:
            self.promised = self.disk["promised"] = body["ballot"]
            slot = body["slot"]
            known = [2**60, self.chosen[slot]] if slot < len(self.chosen) else self.accepted.get(slot, [-1, None])
            self.answer(src, {"type": "promise", "ballot": body["ballot"], "known": known})
        else:
            self.answer(src, {"type": "no", "ballot": self.promised})

    def no(self, src, body):
        self.ballot = max(self.ballot, body["ballot"])

    def promise(self, src, body):
        if self.state != "asking" or body["ballot"] != self.ballot:
            return
        self.yes.add(src)
        self.best = max(self.best, body["known"], key=lambda each: each[0])
        if 2 * len(self.yes) > self.size:
            self.state, self.yes = "telling", set()
            self.batch = list(self.queue.items()) if self.best[0] < 0 else self.best[1]
            self.everybody({"type": "accept", "ballot": self.ballot, "slot": self.slot, "batch": self.batch})

    def accept(self, src, body):
        if body["ballot"] >= self.promised:
            self.promised = self.disk["promised"] = body["ballot"]
            self.accepted[body["slot"]] = [body["ballot"], body["batch"]]
            self.disk["accepted"] = {str(slot): value for slot, value in self.accepted.items()}
            self.answer(src, {"type": "took", "ballot": body["ballot"]})

    def took(self, src, body):
        if self.state != "telling" or body["ballot"] != self.ballot:
            return
        self.yes.add(src)
        if 2 * len(self.yes) > self.size:
            self.state = None
            slot = self.slot
            if slot == len(self.chosen):
                self.learn([self.batch])
                for peer in self.peers:
                    self.send(peer, {"type": "these", "since": slot, "batches": [self.chosen[slot]]})
            self.go()

    # ---- what is chosen

    def learn(self, batches):
        self.chosen = [*self.chosen, *batches]
        self.accepted = {slot: value for slot, value in self.accepted.items() if slot >= len(self.chosen)}
        self.disk["chosen"] = self.chosen
        self.execute()

    def execute(self):
        while self.executed < len(self.chosen):
            for name, operation in self.chosen[self.executed]:
                if name not in self.done:
                    self.done.add(name)
                    answer = self.effect(*operation)
                    if name in self.requests:
                        self.reply(self.requests.pop(name)[0], answer)
            self.executed += 1

    def effect(self, kind, key, message, offsets, keys):
        if kind == "send":
            log = self.logs.setdefault(key, [])
            log.append(message)
            return {"type": "send_ok", "offset": len(log) - 1}
        if kind == "commit_offsets":
            for each, offset in offsets.items():
                self.offsets[each] = max(self.offsets.get(each, -1), offset)
            return {"type": "commit_offsets_ok"}
        return {"type": kind + "_ok", "offsets": {each: self.offsets[each] for each in keys if each in self.offsets}}
