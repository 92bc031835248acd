"""Hands each request to a service, and its answer back: linearizable if the service is."""

import sys

from wire import Wire

wire = Wire()
for message in wire.messages():
    asked = {key: value for key, value in message["body"].items() if key != "msg_id"}
    wire.request(
        sys.argv[1],
        asked,
        lambda body, message=message: wire.reply(
            message, {key: value for key, value in body.items() if key not in ("msg_id", "in_reply_to")}
        ),
    )
