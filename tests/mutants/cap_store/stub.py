"""Nothing was written.

check: works
kind: crash
"""

from grader.nodes import Node


class Store(Node):
    mode = "CP"

    def on_message(self, src, body):
        raise NotImplementedError()
