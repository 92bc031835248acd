"""serve_replica(checkpoint_path, port) and pod(...): replicas that are killed, load for long, and end, and the Pod they are in.

Probes and what follows from them: Kubernetes' documentation, "Configure Liveness, Readiness and Startup Probes" and "Pod
Lifecycle", sections "Container probes" and "Pod Termination Flow". That a request may be sent again if it changes
nothing: RFC 9110, section 9.2.2.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from grader.exercise import Check, Draw, Exercise
from grader.exercises.serve_checkpoint.checkpoints import Net, net, predict
from grader.exercises.serve_replicas import judging, pods
from grader.exercises.serve_replicas.asked import LARGE, Facts, Plan
from grader.ranks.program import Function, Limits, Strided
from grader.worlds.cases import Case
from grader.worlds.ranks import Crashes

REQUESTS = {"live": 1, "ready": 2, "unusable": 1, "killed": 14, "drain": 5}
LARGE_ROWS, LARGE_OUTPUTS = 250, 40  # an answer of which most waits in the replica until its client reads


def cases(draw: Draw) -> Iterator[Case]:
    """A case is a script with replicas of one checkpoint, a manifest, or a manifest and a replica that it is for."""
    for group, script, label, more in (
        ("live", "live", "A replica that loads, then computes", None),
        ("ready", "ready", "A replica that loads", None),
        ("ready", "unusable", "A replica with half a checkpoint", "half"),
        ("ready", "unusable", "A replica with a checkpoint that lacks a key", "key"),
        ("killed", "killed", "Two replicas, of which one is killed", None),
        ("drain", "drain", "SIGTERM with requests in flight", "held"),
        ("drain", "drain", "SIGTERM without a request", "idle"),
        ("drain", "drain", "SIGTERM while the model loads", "loading"),
    ):
        rng = draw.generator(label)
        large = more == "held"
        model = net(rng, 3, int(rng.integers(4, 9)), LARGE_OUTPUTS if large else 2)
        rows = [LARGE_ROWS if large and at == LARGE else 1 + at % 2 for at in range(REQUESTS[script])]
        asks = tuple(predict(model, np.round(rng.normal(0, 2, (many, 3)), 3)) for many in rows)
        ruin = more or "" if script == "unusable" else ""
        told: tuple[Any, ...] = (script, *_checkpoint(model), ruin, [ask.body for ask in asks], more)
        yield _case(group, label, told, "serve_replica", "replicas", Plan(script, asks, ruin))
    rng = draw.generator("pod")
    for number in (0, 2, 1):
        facts = Facts.drawn(rng, number)
        yield _case("manifest", facts.label, ([facts.image, facts.port, *facts.seconds],), "pod", "manifest", facts)
    told = (*_checkpoint(net(rng, 2, 1)), [facts.image, *facts.seconds])
    yield _case("probes", facts.label, told, "pod", "probed", facts)


def _case(group: str, label: str, told: tuple[Any, ...], function: str, by: str, expected: Any) -> Case:
    return Case(group, label, (told,), function, expected=expected, by=by)


def _checkpoint(model: Net) -> tuple[Any, ...]:
    return [*model.sizes], [*model.state], [Strided.of(values) for values in model.state.values()]


EXERCISE = Exercise(
    name="serve_replicas",
    chapter="17",
    title="Replicas that come and go",
    minutes=75,
    difficulty=3,
    cost="seconds",
    world=Crashes(
        (
            Function("serve_replica", ("checkpoint_path", "port")),
            Function("pod", ("image", "port", "start_seconds", "load_seconds", "request_seconds", "notice_seconds")),
        ),
        cases,
        limits=Limits(cpu_seconds=120, load_cpu_seconds=10, idle_seconds=60, silent_seconds=180, wall_seconds=180),
        imported=(
            "fastapi",
            "uvicorn",
            "uvicorn.lifespan.on",
            "uvicorn.lifespan.off",
            "uvicorn.protocols.http.h11_impl",
            "uvicorn.loops.asyncio",
            "anyio._backends._asyncio",
            "http.server",
        ),
    ),
    checks=(
        Check("live", "/health answers while the model loads, and while it computes", 3, judging.live),
        Check("ready", "/ready says 200 only when the model can answer", 3, judging.ready),
        Check("killed", "A kill costs no request, and the successor takes over", 4, judging.killed),
        Check("drain", "SIGTERM: not ready, finish what is in flight, exit status 0", 5, judging.drain),
        Check("manifest", "The manifest is a Pod that the API server accepts", 3, pods.manifest),
        Check("probes", "The kubelet kills what hangs, and nothing else", 4, pods.probes),
        Check("grace", "Balancers hear of the end before SIGTERM, and SIGKILL comes last", 2, pods.grace),
    ),
)
