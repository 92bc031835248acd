"""Nothing is written yet.

check: elects
kind: not_available
"""

from grader.nodes import Node


class RaftNode(Node):
    def on_start(self):
        pass

    def on_message(self, src, body):
        pass

    def on_timer(self, name):
        pass
