"""Gang schedulers on a small cluster in virtual time: what they were told, what they did, and the picture of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from grader.scheduling import Preempt, Start
from grader.scheduling.cluster import Cluster
from grader.trace.schedule import Block, Outage, Schedule, svg


@dataclass
class Played:
    """A scheduler's run. It shows itself in a notebook; `log` says what happened, call by call."""

    picture: Schedule
    log: list[str] = field(default_factory=list)

    def _repr_svg_(self) -> str:
        return svg(self.picture)


def simulate(
    scheduler: Any, racks: Sequence[Sequence[str]], quotas: Mapping[str, int], jobs: Sequence[Sequence[Any]],
    faults: Sequence[Sequence[Any]] = (),
) -> Played:  # fmt: skip
    """Play a scheduler of these racks and quotas until nothing happens any more.

    `jobs` are rows of time of submit, id, team, nodes, priority, bound and actual seconds; `faults` of time, time of
    the repair, and node. An action that cannot be carried out ends the run, and the log says why.
    """
    cluster = Cluster([list(rack) for rack in racks], dict(quotas), jobs, faults)
    played = Played(Schedule(racks, tuple(quotas), title="Your scheduler"))
    while (call := cluster.next()) is not None:
        if call.name in ("failed", "repaired"):
            _outage(played.picture, call.name, call.what, call.now)
        if call.ended:
            _close(played.picture, call.ended, call.now, "failed" if call.name == "failed" else "finished")
        done = []
        for action in getattr(scheduler, call.name)(call.now, call.job or call.what) or []:
            plain = (
                ["start", action.job_id, list(action.nodes)] if isinstance(action, Start) else ["preempt", action[0]]
            )
            if why := cluster.impossible(plain):
                played.log.append(f"{call.now:6g} s  {call.name} {call.what}: {action} is impossible: {why}")
                return _ended(played, cluster.now)
            cluster.carry_out(plain)
            if isinstance(action, Preempt):
                _close(played.picture, action.job_id, call.now, "preempted")
                done.append(f"preempt {action.job_id}")
                continue
            job = cluster.known[action.job_id]
            nodes = tuple(action.nodes)
            played.picture.blocks.append(Block(job.id, job.team, nodes, call.now, float("inf"), "running"))
            done.append(f"start {job.id} on {' '.join(nodes)}")
        played.log.append(f"{call.now:6g} s  {call.name} {call.what}: {', '.join(done) or 'nothing'}")
    return _ended(played, cluster.now)


def _outage(picture: Schedule, what: str, node: str, now: float) -> None:
    if what == "failed":
        picture.outages.append(Outage(node, now, float("inf")))
        return
    open_ = next(each for each in picture.outages if each.node == node and each.end == float("inf"))
    picture.outages[picture.outages.index(open_)] = Outage(node, open_.begin, now)


def _close(picture: Schedule, name: str, now: float, became: Any) -> None:
    at = next(i for i, block in enumerate(picture.blocks) if block.job == name and block.became == "running")
    block = picture.blocks[at]
    picture.blocks[at] = Block(block.job, block.team, block.nodes, block.begin, now, became)


def _ended(played: Played, now: float) -> Played:
    picture = played.picture
    picture.until = now
    for block in [block for block in picture.blocks if block.became == "running"]:
        _close(picture, block.job, now, "finished")
    picture.outages = [Outage(each.node, each.begin, min(each.end, now)) for each in picture.outages]
    return played
