"""It raises where something is to be written.

check: counters
kind: crash
"""

from grader.nodes import Node


class GCounter:
    def increment(self, node, amount=1):
        raise NotImplementedError()

    def merge(self, other):
        raise NotImplementedError()

    def value(self):
        raise NotImplementedError()

    def to_json(self):
        raise NotImplementedError()

    @classmethod
    def from_json(cls, told):
        raise NotImplementedError()


class PNCounter(GCounter):
    def decrement(self, node, amount=1):
        raise NotImplementedError()


class LWWRegister(GCounter):
    def set(self, value, timestamp, node):
        raise NotImplementedError()


class ORSet(GCounter):
    def add(self, element, node):
        raise NotImplementedError()

    def remove(self, element):
        raise NotImplementedError()


class GossipStore(Node):
    def on_message(self, src, body):
        raise NotImplementedError()
