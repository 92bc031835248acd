"""Worlds that run message-passing nodes: simulator, explorer and real processes; histories and what is right in them.

A learner's submission imports Node from here.
"""

from grader.nodes.node import Body, Disk, Node

__all__ = ["Body", "Disk", "Node"]
