"""It raises where something is to be written.

check: delivers
kind: crash
"""

from grader.nodes import Node


class VectorClock:
    def tick(self, node):
        raise NotImplementedError()

    def merge(self, other):
        raise NotImplementedError()

    def compare(self, other):
        raise NotImplementedError()


class CausalBroadcast(Node):
    def on_start(self):
        raise NotImplementedError()

    def on_message(self, src, body):
        raise NotImplementedError()
