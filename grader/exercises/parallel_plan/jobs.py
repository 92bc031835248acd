"""The models and clusters that are planned for: each has mistakes that it tells from right plans.

The models are like published ones (GPT-2, LLaMA, GPT-3, the 1 T model of Narayanan et al. 2021, table 1), some with a
number of layers that no pipeline divides. What devices and links can do is drawn afresh, within a few per cent.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from grader.exercise import Draw
from grader.exercises.parallel_plan import costs as costs
from grader.exercises.parallel_plan.costs import Column, Memory, Plans, Seconds
from grader.planning import ClusterSpec, ModelSpec, Plan
from grader.worlds.cases import Case

GB, GIB = 1e9, 2.0**30
TELLING = 1.08  # a mistake's plans take at least so many times the best one's time, or do not fit
ROUNDING = 1e-9  # relative: what float64 arithmetic may lose on the way

# devices, a node, bytes, FLOP/s while computing; of the node, then of a NIC: seconds a message, bytes a second
H100 = ClusterSpec(0, 8, 80 * GB, 600e12, 2e-6, 450 * GB, 4e-6, 50 * GB)  # the machine of the course, see chapter 01
A100 = ClusterSpec(0, 8, 40 * GB, 140e12, 5e-6, 200 * GB, 10e-6, 20 * GB)
A100_80 = replace(A100, memory=80 * GB)
A100_PCIE = ClusterSpec(0, 8, 40 * GB, 140e12, 10e-6, 16 * GB, 15e-6, 6 * GB)
V100 = ClusterSpec(0, 16, 32 * GB, 50e12, 6e-6, 100 * GB, 15e-6, 5 * GB)
V100_OF_SIX = ClusterSpec(0, 6, 32 * GB, 60e12, 6e-6, 50 * GB, 15e-6, 4 * GB)


@dataclass(frozen=True)
class Base:
    """A model and a cluster, and the mistakes that must show there (names of `costs.FORGOTTEN` or `costs.NARROW`)."""

    group: str
    model: ModelSpec
    cluster: ClusterSpec
    telling: tuple[str, ...]


def _base(group: str, model: tuple[int, ...], devices: int, cluster: ClusterSpec, *telling: str, **more: Any) -> Base:
    return Base(group, ModelSpec(*model), replace(cluster, devices=devices, **more), telling)


BASES = (
    # layers, hidden, heads, sequence, vocabulary, batch
    _base("legal", (48, 1600, 25, 1024, 50257, 16), 64, A100, "heads"),
    _base("legal", (46, 6144, 64, 2048, 50304, 256), 64, V100, "layers", memory=16 * GB),
    _base("legal", (36, 5120, 40, 2048, 50257, 100), 96, A100_80, "batch"),
    _base("fits", (80, 8192, 64, 4096, 32000, 256), 64, A100_PCIE, "optimizer", "activations", "in_flight"),
    _base("fits", (32, 2560, 32, 2048, 50304, 256), 8, A100_PCIE, "gradient_memory", "all_sharded", memory=16 * GB),
    _base("fits", (18, 2048, 8, 16384, 256000, 128), 32, V100, "embedding", "gibibytes",
          memory=24 * GB, network_bandwidth=1.25 * GB),
    _base("fits", (32, 4096, 32, 16384, 32000, 16), 8, A100_PCIE, "working", "no_recompute",
          memory=16 * GB, network_bandwidth=1.5 * GB),
    _base("fits", (30, 8192, 64, 8192, 128256, 512), 96, V100_OF_SIX, "embedding_split", "devices",
          memory=16 * GB, network_bandwidth=2.5 * GB),
    _base("small", (31, 4096, 32, 8192, 32000, 512), 16, A100, "again", "links", "recompute", "zero3", "no_tensor",
          "one_micro_batch", memory=64 * GB, network_bandwidth=1 * GB),
    _base("small", (25, 1024, 16, 4096, 50304, 64), 8, A100, "tensor", "recompute", "whole_node", "one_node",
          memory=48 * GB, network_bandwidth=0.125 * GB),
    _base("small", (24, 1024, 16, 1024, 50304, 128), 128, A100_80, "latency", "nics", "bubble",
          network_bandwidth=2.5 * GB),
    _base("pipeline", (96, 12288, 96, 2048, 50304, 4096), 512, A100_80, "no_pipeline", "zero3",
          network_bandwidth=2 * GB),
    _base("pipeline", (48, 6144, 48, 2048, 50304, 64), 192, A100, "bubble", "no_pipeline"),
    _base("pipeline", (48, 6144, 64, 2048, 50304, 256), 32, V100, "in_flight", "stage_2", memory=39 * GB),
    _base("pipeline", (61, 5120, 40, 4096, 32000, 1024), 512, A100_PCIE, "low_stages", "gibibytes"),
    _base("pipeline", (32, 2560, 32, 8192, 50304, 256), 256, A100_PCIE, "no_stage_2", memory=32 * GB),
    _base("pipeline", (32, 4096, 32, 16384, 50304, 96), 512, H100, "stages", "stages_span", "fewer_nics",
          devices_per_node=16, memory=64 * GB, network_bandwidth=1 * GB),
    _base("pipeline", (94, 4096, 48, 4096, 32000, 16), 96, A100_PCIE, "again_sent", "node_limit",
          "no_stage_3", "powers", devices_per_node=6, memory=16 * GB, network_bandwidth=12.5 * GB),
    _base("pipeline", (64, 12288, 96, 8192, 128256, 16), 256, H100, "few_in_flight", "scores",
          memory=32 * GB, network_bandwidth=12.5 * GB),
    _base("nodes", (79, 8192, 64, 32768, 32000, 32), 256, H100, "nodes", "no_recompute",
          memory=96 * GB, network_bandwidth=2.5 * GB),
    _base("nodes", (48, 8192, 64, 16384, 50304, 64), 384, V100_OF_SIX, "nodes", "straddle",
          memory=48 * GB, network_bandwidth=2 * GB),
    _base("nodes", (18, 2048, 8, 32768, 32000, 64), 48, A100_PCIE, "attention", network_bandwidth=2.5 * GB),
    _base("nodes", (30, 8192, 64, 8192, 128256, 32), 96, V100, "within_node", "nics", "links",
          devices_per_node=6, memory=24 * GB),
    _base("huge", (128, 25600, 160, 4096, 51200, 1536), 16384, H100, "bubble", "nodes", network_bandwidth=20 * GB),
    _base("huge", (128, 25600, 160, 4096, 51200, 1536), 3072, H100, "nodes", "no_recompute",
          memory=64 * GB, network_bandwidth=12.5 * GB),
)  # fmt: skip


@dataclass(frozen=True)
class Job:
    """A model on a cluster, and what every legal plan takes."""

    model: ModelSpec
    cluster: ClusterSpec

    @property
    def label(self) -> str:
        size = costs.parameters(self.model)
        of = f"{size / 1e12:.3g} T" if size >= 1e12 else f"{size / 1e9:.3g} billion"
        return f"{of} parameters on {self.cluster.devices} devices"

    @property
    def call(self) -> str:
        both = (
            f"{type(spec).__name__}({', '.join(f'{name}={value:.6g}' for name, value in asdict(spec).items())})"
            for spec in (self.model, self.cluster)
        )
        return f"plan({', '.join(both)})"

    def seconds(self, plans: Plans, forgot: str = "") -> Seconds:
        return costs.seconds(self.model, self.cluster, plans, forgot)

    def memory(self, plans: Plans, forgot: str = "") -> Memory:
        return costs.memory(self.model, self.cluster, plans, forgot)

    def times(self, plans: Plans, mistake: str = "") -> Column:
        """Seconds a step, as somebody finds them who makes the mistake; infinite where a plan is none for him."""
        there = self.cluster.memory * (GIB / GB if mistake == "gibibytes" else 1)
        fits = self.memory(plans, mistake).all <= there
        if mistake == "room_left":
            fits = self.memory(plans).all < there
        if mistake == "memory":
            fits = np.ones_like(fits)
        if mistake in costs.NARROW:
            fits = fits & costs.narrow(mistake, self.cluster, plans)
        return np.where(fits, self.seconds(plans, mistake).all, np.inf)

    def best(self) -> tuple[Plan, float]:
        """The fastest plan that fits, and its time."""
        plans = _legal(self.model, self.cluster)
        times = self.times(plans)
        return plans[int(times.argmin())], float(times.min())

    def explained(self, plan: Plan, mistake: str) -> bool:
        """Whether somebody who makes the mistake would find this plan the best."""
        seconds = float(self.times(Plans.one(plan), mistake)[0])
        return seconds < np.inf and seconds <= self._least(mistake) * (1 + ROUNDING)

    def _least(self, mistake: str) -> float:
        return float(self.times(_legal(self.model, self.cluster, mistake), mistake).min())

    def tells(self, mistake: str) -> bool:
        """Whether all plans that somebody may choose who makes the mistake are illegal, do not fit or are slow."""
        plans = _legal(self.model, self.cluster, mistake)
        wrong = self.times(plans, mistake)
        if np.isinf(wrong).all():
            return True  # who makes it finds none
        chosen = wrong <= wrong.min() * (1 + ROUNDING)
        really = self.times(plans)[chosen]
        if mistake in costs.UNCHECKED:
            lawful = [not costs.illegal(self.model, self.cluster, plans[int(i)]) for i in np.flatnonzero(chosen)]
            return not any(lawful)
        return bool(really.min() > TELLING * self.best()[1])


@cache
def _legal(model: ModelSpec, cluster: ClusterSpec, mistake: str = "") -> Plans:
    return costs.legal(model, cluster, mistake if mistake in costs.UNCHECKED else "")


def cases(draw: Draw) -> Iterator[Case]:
    """Every pair of a model and a cluster, all of them in one world of one rank."""
    for number, base in enumerate(BASES):
        job = _drawn(draw.generator(f"pair {number}"), base)
        arguments = asdict(job.model), asdict(job.cluster)
        yield Case(base.group, job.label, (arguments,), "plan", expected=job, by="planned")
    job = _full(draw.generator("full"))
    arguments = asdict(job.model), asdict(job.cluster)
    yield Case("pipeline", job.label, (arguments,), "plan", expected=job, by="planned")


def _drawn(generator: np.random.Generator, base: Base) -> Job:
    """The pair with a cluster that is a little better or worse, and where its mistakes show."""
    while True:
        speeds = ("flops", "node_latency", "node_bandwidth", "network_latency", "network_bandwidth")
        fresh: dict[str, Any] = {
            name: _digits(getattr(base.cluster, name) * generator.uniform(0.95, 1.05)) for name in speeds
        }
        fresh["memory"] = _digits(base.cluster.memory * generator.uniform(0.97, 1.0))
        job = Job(base.model, replace(base.cluster, **fresh))
        if np.isfinite(job.best()[1]) and all(job.tells(mistake) for mistake in base.telling):
            return job


def _full(generator: np.random.Generator) -> Job:
    """A cluster whose devices have exactly the memory that the best plan needs. The model's numbers are powers of two, so
    floats hold its bytes exactly, in whatever order they are added up."""
    base = _base("", (32, 4096, 32, 4096, 32768, 64), 64, A100)
    while True:
        job = _drawn(generator, base)
        cluster = replace(job.cluster, memory=job.cluster.memory * generator.uniform(0.3, 1))
        if not np.isfinite(Job(job.model, cluster).best()[1]):
            continue
        need = float(job.memory(Plans.one(Job(job.model, cluster).best()[0])).all[0])
        job = Job(job.model, replace(cluster, memory=need))
        if job.tells("room_left"):
            return job


def _digits(value: float) -> float:
    return float(f"{value:.3g}")
