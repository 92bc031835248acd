"""Transactions over lists (append) or registers (w).

leader: node n1 does them all, one at a time. alone: every node for itself.
"""

import sys

from wire import Wire

WRITE, HOW = sys.argv[1:3]
wire, state = Wire(), {}


def do(message, ops):
    """Fill in the reads, and write."""
    done = []
    for f, key, value in ops:
        if f == "append":
            state[key] = [*state.get(key, []), value]
        elif f == "w":
            state[key] = value
        done.append([f, key, state.get(key) if f == "r" else value])
    wire.reply(message, {"type": "txn_ok", "txn": done})


for message in wire.messages():
    ops = message["body"]["txn"]
    if HOW != "alone" and wire.id != wire.ids[0]:
        wire.request(
            wire.ids[0],
            {"type": "txn", "txn": ops},
            lambda body, message=message: wire.reply(message, {"type": "txn_ok", "txn": body["txn"]}),
        )
    else:
        do(message, ops)
