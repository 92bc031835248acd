"""Figures that a reader moves. Each is drawn by `widgets/NAME.js`; the numbers are computed here by the same formulas.

    figures.collectives(ranks=64, size=1e6)

Shown with a kernel, a figure's values can be read and set from Python: `figure.ranks = 8`. On paper and where no script
runs there is a picture of the values that the figure was made with.
"""

from courselib.figures.accounting import accounting
from courselib.figures.collectives import collectives
from courselib.figures.goodput import goodput
from courselib.figures.isolation import isolation
from courselib.figures.latency import latency
from courselib.figures.partition import partition
from courselib.figures.pipeline import pipeline
from courselib.figures.plans import plans
from courselib.figures.replicas import replicas
from courselib.figures.rollouts import rollouts
from courselib.figures.routing import routing
from courselib.figures.serving import batches, caches, roofline
from courselib.figures.sharding import sharding
from courselib.figures.staleness import staleness
from courselib.figures.steps import election_in_terms, steps, two_phase_commit

__all__ = [
    "accounting",
    "batches",
    "caches",
    "collectives",
    "election_in_terms",
    "goodput",
    "isolation",
    "latency",
    "partition",
    "pipeline",
    "plans",
    "replicas",
    "rollouts",
    "roofline",
    "routing",
    "sharding",
    "staleness",
    "steps",
    "two_phase_commit",
]
