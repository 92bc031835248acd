"""Wrong in the way that its argument names: each is a mistake that people make."""

import sys

from wire import Wire

HOW = sys.argv[1]  # alone: tells nobody. once: tells its neighbours once. twice: counts what comes twice. list: no set
wire = Wire()
values, count, neighbours = [], 0, []
for message in wire.messages():
    body = message["body"]
    match body["type"]:
        case "topology":
            neighbours = body["topology"][wire.id]
            print("neighbours:", neighbours, file=sys.stderr)
            wire.reply(message, {"type": "topology_ok"})
        case "broadcast" | "told" if HOW == "list" or body["message"] not in values:
            values.append(body["message"])
            for other in neighbours if HOW == "once" else wire.others if HOW == "list" and "msg_id" in body else ():
                for _ in range(2 if HOW == "list" else 1):
                    wire.send(other, {"type": "told", "message": body["message"]})
            if body["type"] == "broadcast":
                wire.reply(message, {"type": "broadcast_ok"})
        case "add":
            count += body["delta"]
            for other in wire.others if HOW == "twice" else ():
                for _ in range(2):  # "to be sure that it arrives"
                    wire.send(other, {"type": "more", "delta": body["delta"]})
            wire.reply(message, {"type": "add_ok"})
        case "more":
            count += body["delta"]
        case "read":
            wire.reply(message, {"type": "read_ok", "messages": values, "value": count})
