"""A g-counter: one sum under one key of a service, changed by compare-and-set, tried again where others were first."""

import sys

from wire import Wire

SERVICE, KEY = sys.argv[1], "sum"
wire = Wire()


def add(message):
    def try_from(body):
        before = body.get("value", 0)
        change = {"from": before, "to": before + message["body"]["delta"], "create_if_not_exists": True}
        wire.request(SERVICE, {"type": "cas", "key": KEY, **change}, done)

    def done(body):
        if body["type"] == "cas_ok":
            wire.reply(message, {"type": "add_ok"})
        else:
            add(message)

    wire.request(SERVICE, {"type": "read", "key": KEY}, try_from)


def read(message):
    wire.request(
        SERVICE,
        {"type": "read", "key": KEY},
        lambda body: wire.reply(message, {"type": "read_ok", "value": body.get("value", 0)}),
    )


for message in wire.messages():
    (add if message["body"]["type"] == "add" else read)(message)
