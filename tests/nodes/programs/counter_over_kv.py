"""A g-counter: each node keeps its own sum under a key of its own in a service; a read asks for all keys."""

import sys

from wire import Wire

SERVICE = sys.argv[1]
wire = Wire()
mine = 0


def read(message, left, total):
    """Ask for the sums of the nodes that are left, one after the other."""
    if not left:
        wire.reply(message, {"type": "read_ok", "value": total})
        return
    wire.request(
        SERVICE, {"type": "read", "key": left[0]}, lambda body: read(message, left[1:], total + body.get("value", 0))
    )


for message in wire.messages():
    if message["body"]["type"] == "add":
        mine += message["body"]["delta"]
        wire.request(
            SERVICE,
            {"type": "write", "key": wire.id, "value": mine},
            lambda body, message=message: wire.reply(message, {"type": "add_ok"}),
        )
    else:
        read(message, wire.others, mine)
