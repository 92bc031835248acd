"""Sleeps for a second in every handler: each is in time, all together would take hours.

family: bombs
tries: harm
earned: 0
ends: timeout, sandbox_violation
heavy: yes
"""

import time

from grader.nodes import Node


class Store(Node):
    def on_start(self):
        self.set_timer("again", 0.01)

    def on_timer(self, name):
        time.sleep(1)
        self.set_timer("again", 0.01)

    def on_message(self, src, body):
        time.sleep(1)
