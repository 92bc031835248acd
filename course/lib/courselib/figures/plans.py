"""The parallel plan of a transformer under the course's cost model: memory and step time, among all legal plans."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from courselib import planner
from courselib.figures.shown import figure
from courselib.plot import plot
from grader.exercises.parallel_plan import costs
from grader.planning import ClusterSpec, ModelSpec, Plan

MODEL = ModelSpec(layers=80, hidden=8192, heads=64, sequence=4096, vocabulary=128256, batch=512)
CLUSTER = ClusterSpec(  # 32 nodes of the machine in chapter 01, which compute at 600 TFLOP/s
    devices=256, devices_per_node=8, memory=80e9, flops=600e12, node_latency=2e-6, node_bandwidth=450e9,
    network_latency=4e-6, network_bandwidth=50e9,
)  # fmt: skip
PLAN = Plan(dp=8, tp=8, pp=4, micro_batches=16, zero_stage=0, recompute=True)


def plans(model: ModelSpec = MODEL, cluster: ClusterSpec = CLUSTER, plan: Plan = PLAN) -> Any:
    """A plan to be changed, beside all others and the best; formulas of the exercise parallel_plan.

    `plan.dp` is what the devices leave. Raises ValueError for a plan that is not legal, or where none fits.
    """
    mine, best = planner.judged(model, cluster, plan), planner.best(model, cluster)
    size = planner.parameters(model) / 1e9
    still = plot(
        f"Plans for {size:.3g} billion parameters: step time and memory",
        {
            "the fastest plan with so much memory": _fastest(model, cluster, 6 * best.seconds),
            f"memory of a device: {cluster.memory / 1e9:g} GB": [(cluster.memory, t * best.seconds) for t in (1, 6)],
        },
        {
            "this plan": [(mine.memory, mine.seconds)],
            "the best that fits": [(best.memory, best.seconds)],
        },
        x="memory that it needs", y="seconds of a step", units=("B", "s"), log="xy",
    )  # fmt: skip
    links = {name: value for name, value in asdict(cluster).items() if name not in ("devices", "memory")}
    chosen = {name: value for name, value in asdict(plan).items() if name != "dp"}
    return figure(
        "plans",
        still,
        question="This plan takes 62 % more time than the best one. Which changes take most of that away?",
        answer="Without full recomputation the plan takes 9.5 s and just fits, in 79.9 of 80 GB. With 64 micro-"
        "batches instead of 16 the bubble shrinks from 1.5 s to 0.4 s, and the step to 8.5 s. With t = 4,"
        " p = 2 and 16 micro-batches the collectives of tensor parallelism take 0.8 s instead of 1.8 s. "
        "The states then fit only with ZeRO stage 1. That plan takes 7.8 s, and it is the best.",
        spec=asdict(model), links=links, devices=cluster.devices, memory=cluster.memory, **chosen,
    )  # fmt: skip


def _fastest(model: ModelSpec, cluster: ClusterSpec, most: float) -> list[tuple[float, float]]:
    """How fast plans get with more and more memory, in steps: (bytes, seconds) of those under `most` seconds."""
    every = costs.legal(model, cluster)
    need, take = costs.memory(model, cluster, every).all, costs.seconds(model, cluster, every).all
    found: list[tuple[float, float]] = []
    for memory, seconds in sorted(zip(need.tolist(), take.tolist(), strict=True)):
        if seconds < (found[-1][1] if found else most) and memory < 10 * cluster.memory:
            found += [(memory, found[-1][1])] if found else []
            found.append((memory, seconds))
    return found
