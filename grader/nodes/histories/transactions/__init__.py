"""Transactions as clients saw them: what must have come before what, and which anomalies that shows.

`find` gives the anomalies of a history by Adya (1999) and by Kingsbury and Alvaro (Elle, 2020), `check` those that an
isolation level forbids, `graph` the edges that they come from.
"""

from grader.nodes.histories.transactions.dependencies import Graph, graph
from grader.nodes.histories.transactions.finding import Judged, check, find
from grader.nodes.histories.transactions.levels import LEVELS, Level
from grader.nodes.histories.transactions.parts import Anomaly, Edge
from grader.nodes.histories.transactions.transaction import WORKLOADS, Op, Transaction

__all__ = ["LEVELS", "WORKLOADS", "Anomaly", "Edge", "Graph", "Judged", "Level", "Op", "Transaction", "check", "find",
           "graph"]  # fmt: skip
