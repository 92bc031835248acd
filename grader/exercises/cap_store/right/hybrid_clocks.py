"""Stamps are hybrid logical clocks; each write is pushed at once, and heartbeats carry digests by which gaps are found."""

import json
from collections import defaultdict

from grader.nodes import Node

BEAT = 0.25
TIMEOUT = 1.6


class Store(Node):
    mode = "AP"

    def on_start(self):
        self.stamps, self.values = {}, {}
        for key in self.disk:
            self.stamps[key], self.values[key] = self.disk[key]
        self.requests, self.votes = {}, defaultdict(dict)
        self.serial = 0
        if self.mode == "AP":
            self.set_timer("beat", BEAT)

    def stamp(self, seen):
        """Later than what was seen, and than anything of mine."""
        mine = self.disk["-clock"][1] if "-clock" in self.disk else 0
        time = max(int(self.now() * 1000), seen[0] + 1, mine + 1)
        self.disk["-clock"] = [[0, ""], time]
        return [time, self.id]

    def take(self, key, stamp, value):
        if stamp > self.stamps.get(key, [-(10**12), ""]):
            self.stamps[key], self.values[key] = stamp, value
            self.disk[key] = [stamp, value]

    def on_message(self, src, body):
        kind = body["type"]
        key = json.dumps(body["key"]) if "key" in body else None
        if kind == "read" and self.mode == "AP":
            self.reply(body, {"type": "read_ok", "value": self.values.get(key)})
        elif kind == "write" and self.mode == "AP":
            stamp = self.stamp(self.stamps.get(key, [-(10**12), ""]))
            self.take(key, stamp, body["value"])
            self.reply(body, {"type": "write_ok"})
            for peer in self.peers:
                self.send(peer, {"type": "push", "key": body["key"], "stamp": stamp, "value": body["value"]})
        elif kind in ("read", "write"):
            self.serial += 1
            self.requests[self.serial] = body
            self.set_timer(f"timeout:{self.serial}", TIMEOUT)
            self.vote(self.id, {"of": [self.serial, 1], **self.entry(key)})
            for peer in self.peers:
                self.send(peer, {"type": "query", "key": body["key"], "of": [self.serial, 1]})
        elif kind == "query":
            self.send(src, {"type": "vote", "of": body["of"], **self.entry(key)})
        elif kind == "push":
            self.take(key, body["stamp"], body["value"])
            if "of" in body:
                self.send(src, {"type": "vote", "of": body["of"]})
        elif kind == "vote":
            self.vote(src, body)
        elif kind == "beat":
            theirs = body["digest"]
            for key, stamp in self.stamps.items():
                if stamp > theirs.get(key, [-(10**12), ""]) and not key.startswith("-"):
                    self.send(src, {"type": "push", "key": json.loads(key), "stamp": stamp, "value": self.values[key]})

    def entry(self, key):
        return {"stamp": self.stamps.get(key, [-(10**12), ""]), "value": self.values.get(key)}

    def vote(self, src, body):
        serial, phase = body["of"]
        votes = self.votes[serial, phase]
        votes[src] = body
        if serial not in self.requests or 2 * len(votes) <= len(self.peers) + 1:
            return
        request = self.requests[serial]
        key = json.dumps(request["key"])
        if phase == 2:
            self.cancel_timer(f"timeout:{serial}")
            del self.requests[serial]
            done = (
                {"type": "write_ok"}
                if request["type"] == "write"
                else {"type": "read_ok", "value": votes[self.id]["value"]}
            )
            self.reply(request, done)
        elif (serial, 2) not in self.votes:
            best = max(votes.values(), key=lambda vote: vote["stamp"])
            stamp, value = best["stamp"], best["value"]
            if request["type"] == "write":
                stamp, value = self.stamp(stamp), request["value"]
            if value is not None:
                self.take(key, stamp, value)
            for peer in self.peers:
                self.send(
                    peer, {"type": "push", "key": request["key"], "stamp": stamp, "value": value, "of": [serial, 2]}
                )
            self.vote(self.id, {"of": [serial, 2], "value": value})

    def on_timer(self, name):
        if name == "beat":
            digest = {key: stamp for key, stamp in self.stamps.items() if not key.startswith("-")}
            for peer in self.peers:
                self.send(peer, {"type": "beat", "digest": digest})
            self.set_timer("beat", BEAT)
        else:
            serial = int(name.partition(":")[2])
            if serial in self.requests:
                self.reply(self.requests.pop(serial), {"type": "error", "code": 0, "text": "no quorum in time"})
