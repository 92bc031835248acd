"""Two strategies chosen in on_start (class hierarchy of helpers); CP skips the write-back when a majority already holds the newest copy; AP sends everything it has, all keys in one message, to one random peer at a time."""

import json

from grader.nodes import Node


class Cells:
    def __init__(self, node):
        self.node, self.disk = node, node.disk

    def get(self, key):
        return self.disk.get("cell " + json.dumps(key), [[0, ""], None])

    def put(self, key, stamp, value):
        if stamp > self.get(key)[0]:
            self.disk["cell " + json.dumps(key)] = [stamp, value]

    def all(self):
        return [[json.loads(name[5:]), *self.disk[name]] for name in list(self.disk) if name.startswith("cell ")]


class Consistent:
    def __init__(self, node):
        self.node, self.cells = node, Cells(node)
        self.open = {}
        self.number = 0

    def request(self, body):
        self.number += 1
        self.open[self.number] = {"body": body, "round": 1, "heard": {}}
        self.node.set_timer(f"late {self.number}", 1.6)
        self.call(self.number, {"type": "look", "key": body["key"]})

    def call(self, number, message):
        ticket = [number, self.open[number]["round"]]
        for peer in self.node.peers:
            self.node.send(peer, {**message, "ticket": ticket})
        self.heard(self.node.id, ticket, self.carry_out(message))

    def carry_out(self, message):
        if message["type"] == "keep":
            self.cells.put(message["key"], message["stamp"], message["value"])
        return self.cells.get(message["key"])

    def heard(self, who, ticket, cell):
        number, turn = ticket
        state = self.open.get(number)
        if state is None or state["round"] != turn:
            return
        state["heard"][who] = cell
        if 2 * len(state["heard"]) <= len(self.node.peers) + 1:
            return
        body, copies = state["body"], list(state["heard"].values())
        if turn == 2:
            self.close(
                number,
                {"type": "write_ok"} if body["type"] == "write" else {"type": "read_ok", "value": state["value"]},
            )
            return
        stamp, value = max(copies, key=lambda copy: copy[0])
        if body["type"] == "write":
            stamp, value = [max(stamp[0], self.cells.get(body["key"])[0][0]) + 1, self.node.id], body["value"]
        elif all(copy[0] == stamp for copy in copies):
            self.close(number, {"type": "read_ok", "value": value})
            return
        state.update(round=2, heard={}, value=value)
        self.call(number, {"type": "keep", "key": body["key"], "stamp": stamp, "value": value})

    def close(self, number, answer):
        self.node.cancel_timer(f"late {number}")
        self.node.reply(self.open.pop(number)["body"], answer)

    def message(self, src, body):
        if body["type"] in ("look", "keep"):
            self.node.send(src, {"type": "copy", "ticket": body["ticket"], "cell": self.carry_out(body)})
        elif body["type"] == "copy":
            self.heard(src, body["ticket"], body["cell"])

    def timer(self, name):
        number = int(name.split()[1])
        if number in self.open:
            self.close(number, {"type": "error", "code": 0, "text": "no majority"})


class Available:
    def __init__(self, node):
        self.node, self.cells = node, Cells(node)
        node.set_timer("gossip", 0.3)

    def request(self, body):
        key = body["key"]
        if body["type"] == "write":
            counter = max((stamp[0] for _, stamp, _ in self.cells.all()), default=0) + 1
            self.cells.put(key, [counter, self.node.id], body["value"])
            self.node.reply(body, {"type": "write_ok"})
        else:
            self.node.reply(body, {"type": "read_ok", "value": self.cells.get(key)[1]})

    def message(self, src, body):
        if body["type"] == "gossip":
            for key, stamp, value in body["cells"]:
                self.cells.put(key, stamp, value)
            if body["want"]:
                self.node.send(src, {"type": "gossip", "want": False, "cells": self.cells.all()})

    def timer(self, name):
        self.node.send(
            self.node.random.choice(self.node.peers), {"type": "gossip", "want": True, "cells": self.cells.all()}
        )
        self.node.set_timer("gossip", 0.3)


class Store(Node):
    mode = "CP"

    def on_start(self):
        self.half = {"CP": Consistent, "AP": Available}[self.mode](self)

    def on_message(self, src, body):
        if body["type"] in ("read", "write"):
            self.half.request(body)
        else:
            self.half.message(src, body)

    def on_timer(self, name):
        self.half.timer(name)
