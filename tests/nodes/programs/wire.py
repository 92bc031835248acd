"""What the programs here share: messages on stdin and stdout, and no more."""

import json
import os
import select
import time


class Wire:
    """Reads requests, answers them, numbers its own messages and knows what each was for."""

    def __init__(self):
        self.id, self.ids, self.last, self.waiting = None, [], 0, {}

    def messages(self, every=None):
        """Each message but init, which is answered here, and answers to `request`; None each `every` seconds."""
        tick = time.monotonic()
        partial = b""
        while True:
            if every is not None and self.id and time.monotonic() >= tick:
                tick = time.monotonic() + every
                yield None
            wait = None if every is None else max(0, tick - time.monotonic())
            if not select.select([0], [], [], wait)[0]:
                continue
            data = os.read(0, 65536)
            if not data:
                return
            *lines, partial = (partial + data).split(b"\n")
            for message in map(json.loads, lines):
                body = message["body"]
                if body["type"] == "init":
                    self.id, self.ids = body["node_id"], body["node_ids"]
                    self.reply(message, {"type": "init_ok"})
                elif body.get("in_reply_to") in self.waiting:
                    self.waiting.pop(body["in_reply_to"])(body)
                else:
                    yield message

    def send(self, dest, body):
        print(json.dumps({"src": self.id, "dest": dest, "body": body}), flush=True)

    def request(self, dest, body, then):
        """Ask `dest`, and call `then` with the body of its answer."""
        self.last += 1
        self.waiting[self.last] = then
        self.send(dest, {**body, "msg_id": self.last})

    def reply(self, message, body):
        self.send(message["src"], {**body, "in_reply_to": message["body"]["msg_id"]})

    @property
    def others(self):
        return [each for each in self.ids if each != self.id]
