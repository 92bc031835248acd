"""Answers what is nested nine hundred deep, and what is no JSON: NaN. It tells its world, not send(), which would look.

family: odd_objects
tries: harm
earned: 0
ends: sandbox_violation
"""

from grader.nodes import Node


class Store(Node):
    def on_message(self, src, body):
        value = "NaN" if self.mode == "AP" else "[" * 900 + "]" * 900
        kind = "write_ok" if body["type"] == "write" else "read_ok"
        text = '{"type": "%s", "value": %s, "in_reply_to": %d}' % (kind, value, body["msg_id"])  # noqa: UP031
        self._world.send(src, text)
