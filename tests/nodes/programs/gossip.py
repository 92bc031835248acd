"""Right, in memory: each node tells its whole state to the others ten times a second. The argument
"counter" makes it one; else it is a set, for broadcast and g-set."""

import sys

from wire import Wire

wire = Wire()
values = set()
totals = {}  # node -> what was added there, up and down: each only ever grows
for message in wire.messages(every=0.1):
    if message is None:
        for other in wire.others:
            wire.send(other, {"type": "state", "values": sorted(values), "totals": totals})
        continue
    body = message["body"]
    match body["type"]:
        case "state":
            values |= set(body["values"])
            for node, theirs in body["totals"].items():
                totals[node] = [max(pair) for pair in zip(totals.get(node, [0, 0]), theirs, strict=True)]
        case "broadcast":
            values.add(body["message"])
            wire.reply(message, {"type": "broadcast_ok"})
        case "add" if "element" in body:
            values.add(body["element"])
            wire.reply(message, {"type": "add_ok"})
        case "add":
            mine = totals.setdefault(wire.id, [0, 0])
            mine[body["delta"] < 0] += abs(body["delta"])
            wire.reply(message, {"type": "add_ok"})
        case "topology":
            wire.reply(message, {"type": "topology_ok"})
        case "read":
            count = sum(up - down for up, down in totals.values())
            value = count if "counter" in sys.argv else sorted(values)
            wire.reply(message, {"type": "read_ok", "messages": sorted(values), "value": value})
