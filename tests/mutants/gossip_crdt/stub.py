"""Nothing is done yet.

check: g_set
kind: not_available
"""

from grader.nodes import Node


class GCounter:
    def increment(self, node, amount=1):
        pass

    def merge(self, other):
        pass

    def value(self):
        pass

    def to_json(self):
        pass

    @classmethod
    def from_json(cls, told):
        pass


class PNCounter(GCounter):
    def decrement(self, node, amount=1):
        pass


class LWWRegister(GCounter):
    def set(self, value, timestamp, node):
        pass


class ORSet(GCounter):
    def add(self, element, node):
        pass

    def remove(self, element):
        pass


class GossipStore(Node):
    def on_message(self, src, body):
        pass
