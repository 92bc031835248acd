"""The machines of a Ray cluster: which of them there are, what grades there, and which may be used."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, replace
from typing import Any

import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

LOOK_SECONDS = 90.0  # most of it is taken by Ray's own start of a process


class Refused(Exception):  # noqa: N818 - reads as what happened
    """The cluster cannot be used, and why."""


@dataclass(frozen=True)
class Machine:
    """A node of the cluster that has processors to give, and what was found there: no version if it did not answer.

    `mode` and `why` are those of `grader.sandbox.modes`; `cores` is how many workers the machine takes.
    """

    node: str
    name: str
    processors: int
    version: str = ""
    mode: str = ""
    why: str = ""
    cores: int = 0

    @property
    def slots(self) -> int:
        """How many workers may run here at a time."""
        return min(self.processors, self.cores)

    @property
    def here(self) -> NodeAffinitySchedulingStrategy:
        """Makes Ray run something on this machine, or not at all."""
        return NodeAffinitySchedulingStrategy(self.node, soft=False)


def connect(address: str) -> None:
    """Join the cluster at HOST:PORT, or the one that runs on this machine ("auto"). Raises Refused."""
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (RuntimeError, ValueError, OSError, RayError) as error:
        raise Refused(_why_not(address, error)) from None


def _why_not(address: str, error: BaseException) -> str:
    """What keeps this machine from a cluster, by what Ray said of it."""
    said = " ".join(f"{type(error).__name__}: {error} {error.__cause__ or ''}".split())
    name = "the Ray cluster on this machine" if address == "auto" else f"the Ray cluster at {address}"
    if "AuthenticationError" in said:
        return (
            f"{name} needs its token: copy ~/.ray/auth_token from the machine that the cluster was started on, and "
            "set RAY_AUTH_MODE=token"
        )
    if "No node info found" in said:
        return f"this machine is not part of {name}: run `ray start --address={address} --num-cpus=0` here"
    if address == "auto" and isinstance(error, ConnectionError):
        return "no Ray cluster runs on this machine: start one with `ray start --head`, or give --address HOST:PORT"
    return f"no connection to {name} ({said.rstrip('. ')})"


def look() -> list[Machine]:
    """All machines that have processors to give, looked at."""

    def look_there() -> str:  # in here, so that Ray sends the text of it: the package may not be there
        try:
            from grader.classroom.batch.cluster import slot
        except ImportError:
            return "{}"
        return slot.look()

    asked: dict[Any, Machine] = {}
    for node in ray.nodes():
        processors = int(node.get("Resources", {}).get("CPU", 0))
        if node["Alive"] and processors:
            name = f"{node['NodeManagerHostname']} ({node['NodeName']})"  # the latter is its address, if not named
            machine = Machine(node["NodeID"], name, processors)
            remote = ray.remote(num_cpus=0, max_retries=0, scheduling_strategy=machine.here)(look_there)
            asked[remote.remote()] = machine
    answered = ray.wait(list(asked), num_returns=len(asked), timeout=LOOK_SECONDS)[0] if asked else []
    return sorted(
        (_found(ref, machine) if ref in answered else machine for ref, machine in asked.items()),
        key=lambda machine: machine.name,
    )


def _found(ref: Any, machine: Machine) -> Machine:
    """The machine with what was answered."""
    try:
        return replace(machine, **{"version": "no rankup, or an older one", **json.loads(ray.get(ref))})
    except RayError:
        return machine


def usable(found: list[Machine], mine: str, trust: bool) -> tuple[list[Machine], list[str]]:
    """Those that may grade, and a sentence on each of the others; `mine` is this machine's version. Raises Refused."""
    good: list[Machine] = []
    said: list[str] = []
    for machine in found:
        if not machine.version:
            said.append(f"{machine.name} is not used: it did not answer")
        elif machine.version != mine:
            raise Refused(
                f"{machine.name} has {machine.version}, this machine has {mine}: install the same version on all "
                "machines of the cluster"
            )
        elif machine.mode == "full" or trust:
            good.append(machine)
            if machine.mode != "full":
                said.append(f"Not isolated on {machine.name} ({machine.why}): grade only code that you trust there")
        else:
            said.append(f"{machine.name} is not used: submissions cannot be isolated there ({machine.why})")
    if good:
        return good, said
    if any(machine.version for machine in found):
        why = "; ".join(f"{machine.name}: {machine.why}" for machine in found if machine.why)
        raise Refused(
            f"no machine of the Ray cluster can isolate submissions ({why}); `rankup doctor` there says how to change "
            "this. If you trust every submission, add --trust-submissions"
        )
    raise Refused(f"the Ray cluster has no processor to grade with{': ' if said else ''}{'; '.join(said)}")
