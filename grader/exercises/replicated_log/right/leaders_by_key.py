"""Keys are spread over three groups, each a Raft of its own with its own leader; a request about several keys is parted.
Offsets are numbers of entries."""

from zlib import crc32

from grader.nodes import Node

GROUPS = 3


class Group:
    """One Raft. `node` sends, and is told of what is committed."""

    def __init__(self, node, number):
        self.node, self.number = node, number
        self.term, self.vote = node.disk.get(f"vote {number}", [0, ""])
        self.log = node.disk.get(f"log {number}", [])
        self.known = self.applied = 0
        self.boss, self.votes, self.agree = None, None, None
        self.arm()

    def arm(self):
        self.node.set_timer(f"stand {self.number}", self.node.random.uniform(0.35, 0.8))

    def tell(self, peer, kind, **more):
        self.node.send(peer, {"type": "raft", "group": self.number, "kind": kind, "term": self.term, **more})

    def keep(self, term, vote):
        self.node.disk[f"vote {self.number}"] = [term, vote]
        self.term, self.vote = term, vote

    def tail(self):
        return [self.log[-1]["term"] if self.log else 0, len(self.log)]

    def stand(self):
        if self.agree is not None:
            return
        self.keep(self.term + 1, self.node.id)
        self.boss, self.votes = None, {self.node.id}
        self.arm()
        for peer in self.node.peers:
            self.tell(peer, "ask", tail=self.tail())

    def step_down(self, term):
        if term > self.term:
            self.keep(term, "")
        if self.agree is not None:
            self.arm()
        self.votes = self.agree = None

    def hear(self, src, body):
        if body["term"] < self.term:
            if body["kind"] in ("ask", "append"):
                self.tell(src, "old")
            return
        if body["term"] > self.term:
            self.step_down(body["term"])
            self.boss = None
        getattr(self, "on_" + body["kind"])(src, body)

    def on_old(self, src, body):
        pass

    def on_ask(self, src, body):
        if self.vote in ("", src) and body["tail"] >= self.tail():
            self.keep(self.term, src)
            self.arm()
            self.tell(src, "yes")

    def on_yes(self, src, body):
        if self.votes is None:
            return
        self.votes.add(src)
        if len(self.votes) > self.node.half:
            self.votes, self.agree, self.boss = None, dict.fromkeys(self.node.peers, 0), self.node.id
            self.sent = dict.fromkeys(self.node.peers, len(self.log))
            self.append({"name": "", "do": None})

    def append(self, entry):
        if self.agree is not None and not (entry["name"] and any(e["name"] == entry["name"] for e in self.log)):
            self.log.append({**entry, "term": self.term})
            self.node.disk[f"log {self.number}"] = self.log
            self.beat()

    def beat(self):
        if self.agree is not None:
            for peer in self.node.peers:
                at = self.sent[peer]
                self.tell(
                    peer,
                    "append",
                    at=at,
                    before=self.log[at - 1]["term"] if at else 0,
                    more=self.log[at:],
                    known=self.known,
                )

    def on_append(self, src, body):
        self.step_down(body["term"])
        self.boss = src
        self.arm()
        at, more = body["at"], body["more"]
        if at > len(self.log) or (at and self.log[at - 1]["term"] != body["before"]):
            self.tell(src, "no", known=self.known)
            return
        for place, entry in enumerate(more):
            if at + place >= len(self.log) or self.log[at + place]["term"] != entry["term"]:
                self.log = self.log[: at + place] + more[place:]
                self.node.disk[f"log {self.number}"] = self.log
                break
        self.tell(src, "ok", to=at + len(more))
        self.commit(min(body["known"], at + len(more)))

    def on_no(self, src, body):
        if self.agree is not None:
            self.sent[src] = body["known"]

    def on_ok(self, src, body):
        if self.agree is None:
            return
        self.agree[src] = max(self.agree[src], body["to"])
        self.sent[src] = max(self.sent[src], body["to"])
        to = sorted([*self.agree.values(), len(self.log)])[self.node.half]
        if to and self.log[to - 1]["term"] == self.term:
            self.commit(to)

    def commit(self, to):
        self.known = max(self.known, to)
        while self.applied < self.known:
            entry = self.log[self.applied]
            self.applied += 1
            if entry["do"]:
                self.node.committed(entry["name"], entry["do"], self.applied)


class LogNode(Node):
    def on_start(self):
        self.half = (len(self.peers) + 1) // 2
        self.data, self.top = {}, {}
        self.parts = {}  # name of a part -> [group, operation, the whole's number]
        self.wholes = {}  # number -> [request, how many parts are missing, what was found]
        self.groups = []
        self.groups = [Group(self, number) for number in range(GROUPS)]
        self.set_timer("beat", 0.08)

    def on_timer(self, name):
        if name.startswith("stand"):
            self.groups[int(name.split()[1])].stand()
            return
        self.set_timer("beat", 0.08)
        for group in self.groups:
            group.beat()
        for part in list(self.parts):
            self.push(part)

    def of(self, key):
        return crc32(key.encode()) % GROUPS

    def on_message(self, src, body):
        kind = body["type"]
        if kind == "raft":
            self.groups[body["group"]].hear(src, body)
        elif kind == "part":
            self.groups[body["group"]].append({"name": body["name"], "do": body["do"]})
        elif kind == "poll":
            msgs = {k: [p for p in self.data.get(k, []) if p[0] >= since] for k, since in body["offsets"].items()}
            self.reply(body, {"type": "poll_ok", "msgs": msgs})
        elif kind == "send":
            self.parted(body, {self.of(body["key"]): ["send", body["key"], body["msg"]]})
        elif kind == "commit_offsets":
            by = {}
            for key, offset in body["offsets"].items():
                by.setdefault(self.of(key), ["commit", {}])[1][key] = offset
            self.parted(body, by)
        else:
            by = {}
            for key in body["keys"]:
                by.setdefault(self.of(key), ["list", []])[1].append(key)
            self.parted(body, by)

    def parted(self, body, by):
        number = self.random.getrandbits(60)
        self.wholes[number] = [body, len(by), {}]
        for group, do in by.items():
            name = f"{self.id}:{number}:{group}"
            self.parts[name] = [group, do, number]
            self.push(name)
        if not by:
            self.answer(number)

    def push(self, name):
        group, do, _ = self.parts[name]
        boss = self.groups[group].boss
        if boss == self.id:
            self.groups[group].append({"name": name, "do": do})
        elif boss is not None:
            self.send(boss, {"type": "part", "group": group, "name": name, "do": do})

    def committed(self, name, do, place):
        found = {}
        if do[0] == "send":
            self.data.setdefault(do[1], []).append([place, do[2]])
            found = {"offset": place}
        elif do[0] == "commit":
            for key, offset in do[1].items():
                self.top[key] = max(self.top.get(key, 0), offset)
        else:
            found = {key: self.top[key] for key in do[1] if key in self.top}
        if name in self.parts:
            number = self.parts.pop(name)[2]
            self.wholes[number][1] -= 1
            self.wholes[number][2].update(found)
            if not self.wholes[number][1]:
                self.answer(number)

    def answer(self, number):
        body, _, found = self.wholes.pop(number)
        if body["type"] == "send":
            self.reply(body, {"type": "send_ok", **found})
        elif body["type"] == "commit_offsets":
            self.reply(body, {"type": "commit_offsets_ok"})
        else:
            self.reply(body, {"type": "list_committed_offsets_ok", "offsets": found})
