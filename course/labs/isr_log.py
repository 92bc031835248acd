"""The chapter's log with in-sync replicas, for real processes and Maelstrom's kafka workload among kills.

    rankup nodes run --workload kafka --nodes 4 --nemesis kill -- python -m grader.nodes.speak labs/isr_log.py:All

The last node is the controller; the others hold the log. `isr_log.py:One` acknowledges what the leader alone has: now
and then a kill loses such a message.
"""

from __future__ import annotations

from courselib.brokers import Broker


class All(Broker):
    """acks=all, min.insync.replicas=2."""


class One(Broker):
    """acks=1."""

    acks = "1"
    min_isr = 1
