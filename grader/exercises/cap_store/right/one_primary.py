"""CP by one primary that never changes and answers only while a majority follows it; AP by telling everything to all."""

from dataclasses import asdict, dataclass
from typing import Any

from grader.nodes import Node

WAIT = 1.4


@dataclass
class Entry:
    counter: int = 0
    writer: str = ""
    value: Any = None

    def newer_than(self, other: "Entry") -> bool:
        return (self.counter, self.writer) > (other.counter, other.writer)


class Store(Node):
    mode = "CP"

    def on_start(self):
        self.everyone = sorted((self.id, *self.peers))
        self.primary = self.everyone[0]
        self.values = {}
        self.waiting = {}
        self.last = 0
        self.table = {}
        for name in self.disk:
            kind, _, key = name.partition(":")
            self.table[int(key) if kind == "int" else key] = Entry(**self.disk[name])
        if self.mode == "AP":
            self.set_timer("spread", 0.3 + self.random.uniform(0, 0.1))

    def on_message(self, src, body):
        getattr(self, f"{self.mode.lower()}_{body['type']}")(src, body)

    def on_timer(self, name):
        if name == "spread":
            table = [[key, asdict(entry)] for key, entry in self.table.items()]
            for peer in self.peers:
                self.send(peer, {"type": "table", "table": table})
            self.set_timer("spread", 0.3 + self.random.uniform(0, 0.1))
        elif int(name) in self.waiting:
            request = self.waiting.pop(int(name))[0]
            self.reply(request, {"type": "error", "code": 13, "text": "the primary or its followers are out of reach"})

    # CP

    def cp_read(self, src, body):
        self.last += 1
        self.waiting[self.last] = [body, {self.id}, None]
        self.set_timer(str(self.last), WAIT)
        what = {"op": body["type"], "key": body["key"], "value": body.get("value")}
        self.send(self.primary, {"type": "do", "number": self.last, "what": what})

    cp_write = cp_read

    def cp_do(self, src, body):
        what = body["what"]
        key = repr(what["key"])
        if what["op"] == "write":
            self.values[key] = what["value"]
            answer = {"type": "write_ok"}
        else:
            answer = {"type": "read_ok", "value": self.values.get(key)}
        if src != self.id:
            self.last += 1
        number = self.last if src != self.id else body["number"]
        if src == self.id:
            self.waiting[number][2] = answer
        else:
            self.waiting[number] = [None, {self.id}, (src, body["number"], answer)]
        for peer in self.peers:
            self.send(peer, {"type": "follow", "number": number})

    def cp_follow(self, src, body):
        self.send(src, {"type": "following", "number": body["number"]})

    def cp_following(self, src, body):
        waiting = self.waiting.get(body["number"])
        if waiting is None:
            return
        waiting[1].add(src)
        if len(waiting[1]) * 2 > len(self.everyone):
            request, _, answer = self.waiting.pop(body["number"])
            if request is None:
                dst, number, answer = answer
                self.send(dst, {"type": "done", "number": number, "answer": answer})
            else:
                self.reply(request, answer)

    def cp_done(self, src, body):
        if body["number"] in self.waiting:
            self.reply(self.waiting.pop(body["number"])[0], body["answer"])

    # AP

    def merge(self, key, entry):
        if entry.newer_than(self.table.get(key, Entry())):
            self.table[key] = entry
            self.disk[f"{type(key).__name__}:{key}"] = asdict(entry)

    def ap_read(self, src, body):
        self.reply(body, {"type": "read_ok", "value": self.table.get(body["key"], Entry()).value})

    def ap_write(self, src, body):
        counter = self.table.get(body["key"], Entry()).counter + 1
        self.merge(body["key"], Entry(counter, self.id, body["value"]))
        self.reply(body, {"type": "write_ok"})

    def ap_table(self, src, body):
        for key, fields in body["table"]:
            self.merge(key, Entry(**fields))
