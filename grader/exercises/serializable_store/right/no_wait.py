"""No waiting at locks at all: an owner that finds a held key refuses, the coordinator frees everything and tries again after a random pause, under a new name each time; shared locks for reads; an owner's whole state is one disk value."""

import json
from zlib import crc32

from grader.nodes import Node


class TxnStore(Node):
    PATIENCE = 1.5

    def on_start(self):
        self.people = sorted([self.id, *self.peers])
        self.life, self.number = self.random.getrandbits(60), 0
        self.mine = {}  # name of the request -> state
        self.attempts = {}  # attempt -> name of the request
        self.dead = set()  # attempts that were aborted, as far as this life knows
        self.owned = self.disk.get("owned", {"lists": {}, "held": {}, "applied": []})
        self.applied = set(self.owned["applied"])
        for attempt in self.owned["held"]:
            self.set_timer("ask " + attempt, 0.1)
        for key in list(self.disk):
            if key.startswith("commit "):
                self.set_timer("tell " + key[len("commit ") :], 0.1)

    # ------------------------------------------------------------ helpers
    def owner(self, key):
        return self.people[crc32(str(key).encode()) % len(self.people)]

    def to(self, dst, body):
        if dst == self.id:
            self.on_message(self.id, json.loads(json.dumps(body)))
        else:
            self.send(dst, body)

    def fresh(self, what):
        self.number += 1
        return f"{what}-{self.id}-{self.life}-{self.number}"

    def on_message(self, src, body):
        getattr(self, "on_" + body["type"])(src, body)

    def on_timer(self, name):
        what, _, rest = name.partition(" ")
        getattr(self, "time_to_" + what)(rest)

    # ------------------------------------------------------------ coordinator
    def on_txn(self, src, body):
        parts = {}
        for place, (kind, key, value) in enumerate(body["txn"]):
            parts.setdefault(self.owner(key), []).append([place, kind, key, value])
        if not parts:
            self.reply(body, {"type": "txn_ok", "txn": []})
            return
        name = self.fresh("txn")
        self.mine[name] = {"request": body, "parts": parts, "tries": 0, "refused": False, "attempt": None}
        self.set_timer("quit " + name, self.PATIENCE)
        self.time_to_try(name)

    def time_to_try(self, name):
        state = self.mine.get(name)
        if state is None:
            return
        attempt = self.fresh("attempt")
        state.update(attempt=attempt, votes={})
        state["tries"] += 1
        self.attempts[attempt] = name
        self.set_timer("repeat " + attempt, 0.2)
        self.prepare(attempt)

    def prepare(self, attempt):
        state = self.mine[self.attempts[attempt]]
        for owner, ops in state["parts"].items():
            if attempt in self.attempts and owner not in state["votes"]:
                self.to(owner, {"type": "prepare", "attempt": attempt, "boss": self.id, "ops": ops})

    def time_to_repeat(self, attempt):
        if attempt in self.attempts:
            self.set_timer("repeat " + attempt, 0.2)
            self.prepare(attempt)

    def on_vote(self, src, body):
        attempt = body["attempt"]
        if attempt not in self.attempts:
            if body["yes"] and f"commit {attempt}" not in self.disk:
                self.to(src, {"type": "outcome", "attempt": attempt, "commit": False})
            return
        name = self.attempts[attempt]
        state = self.mine[name]
        if not body["yes"]:
            state["refused"] = True
            self.drop(attempt)
            self.set_timer("try " + name, self.random.uniform(0.01, min(0.4, 0.04 * 2 ** state["tries"])))
            return
        state["votes"][body["who"]] = body["reads"]
        if len(state["votes"]) < len(state["parts"]):
            return
        self.disk[f"commit {attempt}"] = sorted(state["parts"])
        del self.attempts[attempt], self.mine[name]
        for timer in ("quit " + name, "repeat " + attempt):
            self.cancel_timer(timer)
        answer = [list(op) for op in state["request"]["txn"]]
        for reads in state["votes"].values():
            for place, values in reads:
                answer[place][2] = values
        self.reply(state["request"], {"type": "txn_ok", "txn": answer})
        self.time_to_tell(attempt)

    def drop(self, attempt):
        name = self.attempts.pop(attempt)
        self.cancel_timer("repeat " + attempt)
        for owner in self.mine[name]["parts"]:
            self.to(owner, {"type": "outcome", "attempt": attempt, "commit": False})

    def time_to_quit(self, name):
        state = self.mine[name]
        if state["attempt"] in self.attempts:
            self.drop(state["attempt"])
        del self.mine[name]
        self.cancel_timer("try " + name)
        code = 30 if state["refused"] else 11
        self.reply(state["request"], {"type": "error", "code": code, "text": "given up; nothing happened"})

    def time_to_tell(self, attempt):
        left = self.disk.get(f"commit {attempt}", [])
        if left:
            self.set_timer("tell " + attempt, 0.2)
            for owner in left:
                self.to(owner, {"type": "outcome", "attempt": attempt, "commit": True})

    def on_done(self, src, body):
        key = f"commit {body['attempt']}"
        left = self.disk.get(key, [])
        if body["who"] in left:
            self.disk[key] = [owner for owner in left if owner != body["who"]]

    def on_whether(self, src, body):
        attempt = body["attempt"]
        if attempt not in self.attempts:
            self.to(src, {"type": "outcome", "attempt": attempt, "commit": f"commit {attempt}" in self.disk})

    # ------------------------------------------------------------ owner
    def store(self):
        self.disk["owned"] = self.owned

    @staticmethod
    def keys_of(ops):
        wanted = {}
        for _, kind, key, _ in ops:
            wanted[str(key)] = wanted.get(str(key), False) or kind == "append"
        return wanted

    def free(self, ops):
        wanted = self.keys_of(ops)
        for held in self.owned["held"].values():
            for key, writes in self.keys_of(held["ops"]).items():
                if key in wanted and (writes or wanted[key]):
                    return False
        return True

    def on_prepare(self, src, body):
        attempt, ops = body["attempt"], body["ops"]
        if attempt in self.applied or attempt in self.dead:
            return
        if attempt not in self.owned["held"]:
            if not self.free(ops):
                self.to(body["boss"], {"type": "vote", "attempt": attempt, "yes": False, "who": self.id})
                return
            self.owned["held"][attempt] = {"boss": body["boss"], "ops": ops}
            self.store()
            self.set_timer("ask " + attempt, 0.25)
        extra, reads = {}, []
        for place, kind, key, value in ops:
            if kind == "append":
                extra.setdefault(str(key), []).append(value)
            else:
                reads.append([place, self.owned["lists"].get(str(key), []) + extra.get(str(key), [])])
        self.to(body["boss"], {"type": "vote", "attempt": attempt, "yes": True, "who": self.id, "reads": reads})

    def on_outcome(self, src, body):
        attempt = body["attempt"]
        held = self.owned["held"].pop(attempt, None)
        if not body["commit"]:
            self.dead.add(attempt)
            if held is not None:
                self.store()
                self.cancel_timer("ask " + attempt)
            return
        if held is not None:
            for _, kind, key, value in held["ops"]:
                if kind == "append":
                    self.owned["lists"].setdefault(str(key), []).append(value)
            self.applied.add(attempt)
            self.owned["applied"].append(attempt)
            self.store()
            self.cancel_timer("ask " + attempt)
        self.to(src, {"type": "done", "attempt": attempt, "who": self.id})

    def time_to_ask(self, attempt):
        held = self.owned["held"].get(attempt)
        if held is not None:
            self.set_timer("ask " + attempt, 0.25)
            self.to(held["boss"], {"type": "whether", "attempt": attempt})
