"""Logs of messages, read by offsets.

leader: node n1 keeps them, on its disk if asked to. alone: every node for itself. loses: the leader acknowledges every
other message of a key without keeping it. skips: it leaves out the first of two or more messages in a poll.
"""

import json
import os
import sys
from pathlib import Path

from wire import Wire

HOW, DISK = sys.argv[1], "disk" in sys.argv
FILE = Path(os.environ["NODE_DISK"], "log.json")
wire, logs, committed = Wire(), {}, {}
if DISK and FILE.exists():
    logs, committed = json.loads(FILE.read_text())


def answer(body):
    if body["type"] == "send":
        log = logs.setdefault(body["key"], [])
        offset = len(log)
        log.append(None if HOW == "loses" and offset % 2 == 0 else body["msg"])
        return {"type": "send_ok", "offset": offset}
    if body["type"] == "poll":
        found = {}
        for key, since in body["offsets"].items():
            pairs = [[at, msg] for at, msg in enumerate(logs.get(key, [])) if at >= since and msg is not None]
            found[key] = pairs[1:] if HOW == "skips" and len(pairs) > 1 else pairs
        return {"type": "poll_ok", "msgs": found}
    if body["type"] == "commit_offsets":
        for key, offset in body["offsets"].items():
            committed[key] = max(offset, committed.get(key, 0))
        return {"type": "commit_offsets_ok"}
    known = {key: committed[key] for key in body["keys"] if key in committed}
    return {"type": "list_committed_offsets_ok", "offsets": known}


def plain(body):
    return {key: value for key, value in body.items() if key not in ("msg_id", "in_reply_to")}


for message in wire.messages():
    if HOW != "alone" and wire.id != wire.ids[0]:
        wire.request(
            wire.ids[0], plain(message["body"]), lambda body, message=message: wire.reply(message, plain(body))
        )
        continue
    body = answer(message["body"])
    if DISK:
        fresh = FILE.with_suffix(".new")
        fresh.write_text(json.dumps([logs, committed]))
        fresh.replace(FILE)
    wire.reply(message, body)
