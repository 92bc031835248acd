"""Calls a learner's scheduler, as a cluster in virtual time goes on by its answers. It decides nothing."""

from __future__ import annotations

from typing import Any

from grader.scheduling import Preempt, Start
from grader.scheduling.cluster import Cluster

MOST_ACTIONS = 2000  # of one answer


def played(scheduler_class: Any, trace: dict[str, Any]) -> list[list[list[Any]]]:
    """What the scheduler answered to each call, up to the first answer that cannot be carried out."""
    cluster = Cluster(trace["racks"], trace["quotas"], trace["jobs"], trace["faults"])
    scheduler = scheduler_class([list(rack) for rack in trace["racks"]], dict(trace["quotas"]))
    answers: list[list[list[Any]]] = []
    while (call := cluster.next()) is not None:
        method = getattr(scheduler, call.name)
        answer = _plain(method(call.now, call.job if call.job is not None else call.what))
        answers.append(answer)
        for action in answer:
            if cluster.impossible(action):
                return answers
            cluster.carry_out(action)
    return answers


def _plain(answer: Any) -> list[list[Any]]:
    """Actions as lists of text; what is none says what it is."""
    if not isinstance(answer, (list, tuple)):
        return [["none", f"a value of type {type(answer).__name__}"]]
    found: list[list[Any]] = []
    for action in answer[:MOST_ACTIONS]:
        if isinstance(action, Start) and isinstance(action.nodes, (list, tuple, set, frozenset)):
            found.append(["start", str(action.job_id), [str(node) for node in action.nodes]])
        elif isinstance(action, Preempt):
            found.append(["preempt", str(action.job_id)])
        elif isinstance(action, Start):
            found.append(["none", f"a Start whose nodes are of type {type(action.nodes).__name__}"])
        else:
            found.append(["none", f"a list with a value of type {type(action).__name__}"])
    return found
