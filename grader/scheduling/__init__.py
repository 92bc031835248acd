"""What the exercise gang_scheduler is about: jobs, and what a scheduler does with them. Plain data, also in the box.

cluster: the cluster that they are on, in virtual time.
"""

from __future__ import annotations

from typing import NamedTuple


class Job(NamedTuple):
    """A job that wants `nodes` whole nodes at once, for at most `seconds`. A greater `priority` is more important."""

    id: str
    team: str
    nodes: int
    priority: int
    seconds: float


class Start(NamedTuple):
    """Start a waiting job on these nodes."""

    job_id: str
    nodes: list[str]


class Preempt(NamedTuple):
    """Stop a running job. It loses its work, and is waiting again."""

    job_id: str
