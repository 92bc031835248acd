"""A request is a generator that yields questions to all and is sent a majority's answers; AP asks whoever answers in time."""

import json

from grader.nodes import Node

EMPTY = {"at": [0, ""], "value": None}


class Store(Node):
    mode = "CP"

    def on_start(self):
        self.running = {}
        self.numbers = iter(range(1, 10**9))
        self.clock = self.disk.get("clock", 0)
        self.set_timer("pull", 0.7)

    def load(self, key):
        return self.disk.get("k" + json.dumps(key), EMPTY)

    def store(self, key, entry):
        if entry["at"] > self.load(key)["at"]:
            self.disk["k" + json.dumps(key)] = entry

    def tick(self, *seen):
        self.clock = max([self.clock, *seen]) + 1
        self.disk["clock"] = self.clock
        return self.clock

    # ---- what a request does, step by step

    def do_read(self, request):
        key = request["key"]
        answers = yield {"type": "load", "key": key}
        latest = max(answers, key=lambda answer: answer["at"])
        entry = {"at": latest["at"], "value": latest["value"]}
        if any(answer["at"] != latest["at"] for answer in answers):
            yield {"type": "store", "key": key, "entry": entry}
        self.reply(request, {"type": "read_ok", "value": entry["value"]})

    def do_write(self, request):
        key = request["key"]
        answers = yield {"type": "load", "key": key}
        time = self.tick(*(answer["at"][0] for answer in answers))
        yield {"type": "store", "key": key, "entry": {"at": [time, self.id], "value": request["value"]}}
        self.reply(request, {"type": "write_ok"})

    def advance(self, number, answers=None):
        steps = self.running[number][0]
        question = next(steps, None) if answers is None else _sent(steps, answers)
        if question is None:
            self.forget(number)
            return
        self.running[number][1:3] = [next(self.numbers), {}]
        for node in (*self.peers, self.id):
            self.send(node, {**question, "of": number, "step": self.running[number][1]})

    def forget(self, number):
        del self.running[number]
        self.cancel_timer(f"give up {number}")

    # ---- what happens

    def on_message(self, src, body):
        kind = body["type"]
        if kind in ("read", "write"):
            if self.mode == "AP":
                self.at_once(body)
                return
            number = next(self.numbers)
            self.running[number] = [self.do_read(body) if kind == "read" else self.do_write(body), 0, {}, body]
            self.set_timer(f"give up {number}", 1.8)
            self.advance(number)
        elif kind == "load":
            self.send(src, {"type": "yes", "of": body["of"], "step": body["step"], **self.load(body["key"])})
        elif kind == "store":
            self.store(body["key"], body["entry"])
            self.send(src, {"type": "yes", "of": body["of"], "step": body["step"]})
        elif kind == "yes" and body["of"] in self.running and body["step"] == self.running[body["of"]][1]:
            answers = self.running[body["of"]][2]
            answers[src] = body
            if 2 * len(answers) > len(self.peers) + 1:
                self.advance(body["of"], list(answers.values()))
        elif kind == "what have you":
            known = body["known"]
            news = [
                [key, self.disk[key]]
                for key in self.disk
                if key != "clock" and self.disk[key]["at"] > known.get(key, [0, ""])
            ]
            self.send(src, {"type": "news", "news": news})
        elif kind == "news":
            for key, entry in body["news"]:
                self.clock = max(self.clock, entry["at"][0])
                self.store(json.loads(key[1:]), entry)

    def at_once(self, body):
        if body["type"] == "read":
            self.reply(body, {"type": "read_ok", "value": self.load(body["key"])["value"]})
        else:
            time = self.tick(self.load(body["key"])["at"][0])
            self.store(body["key"], {"at": [time, self.id], "value": body["value"]})
            self.reply(body, {"type": "write_ok"})

    def on_timer(self, name):
        if name == "pull":
            if self.mode == "AP":
                known = {key: self.disk[key]["at"] for key in self.disk if key != "clock"}
                for peer in self.peers:
                    self.send(peer, {"type": "what have you", "known": known})
            self.set_timer("pull", 0.7)
        else:
            number = int(name.split()[-1])
            request = self.running.pop(number)[3]
            self.reply(request, {"type": "error", "code": 0, "text": "timed out"})


def _sent(steps, answers):
    try:
        return steps.send(answers)
    except StopIteration:
        return None
