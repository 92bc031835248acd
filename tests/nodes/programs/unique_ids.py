"""Ids that are unique (argument "right"), or a counter of each node's own ("wrong")."""

import sys
import uuid

from wire import Wire

wire = Wire()
for number, message in enumerate(wire.messages()):
    fresh = f"{wire.id}-{uuid.uuid4()}" if sys.argv[1] == "right" else number
    wire.reply(message, {"type": "generate_ok", "id": fresh})
