"""Answers errors whose code is a list, which cannot be looked up in a set.

family: odd_objects
tries: harm
earned: 0
ends: wrong_result, not_available, not_linearizable
"""

from grader.nodes import Node


class Store(Node):
    def on_message(self, src, body):
        self.reply(body, {"type": "error", "code": [{}], "text": ["x"]})
