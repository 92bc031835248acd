"""Echo: every node but n1 hands each request on to n1 as it is, with the client as src, and n1 answers the client."""

import json

from wire import Wire

wire = Wire()
for message in wire.messages():
    if wire.id == "n1":
        wire.reply(message, {"type": "echo_ok", "echo": message["body"]["echo"]})
    else:
        print(json.dumps({**message, "dest": "n1"}), flush=True)
