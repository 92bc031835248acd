"""Sends a hundred messages of a megabyte each time that it is asked: each is allowed, all together are hundreds of
gigabytes in the grader's memory, which keeps what was sent for its picture.

family: bombs
tries: harm
earned: 0
ends: out_of_memory, timeout, sandbox_violation, crash, wrong_result, not_available, not_linearizable
heavy: yes
"""

from grader.nodes import Node


class Store(Node):
    def on_start(self):
        self.set_timer("again", 0.05)

    def on_timer(self, name):
        for peer in self.peers:
            self.send(peer, {"type": "read_ok", "value": "x" * 10**6})
        self.set_timer("again", 0.05)
