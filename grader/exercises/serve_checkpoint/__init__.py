"""create_app(checkpoint_path): a trained model behind FastAPI, asked over HTTP.

Readiness and liveness are two questions: Kubernetes' documentation, "Liveness, Readiness, and Startup Probes". What a
status means: RFC 9110, section 15. Prediction serving as a system: Crankshaw et al. 2017, "Clipper: A Low-Latency Online
Prediction Serving System", NSDI.
"""

from __future__ import annotations

from grader.exercise import Check, Exercise
from grader.exercises.serve_checkpoint import serving
from grader.exercises.serve_checkpoint.checkpoints import cases
from grader.ranks.program import Function, Limits
from grader.worlds.ranks import Crashes

EXERCISE = Exercise(
    name="serve_checkpoint",
    chapter="14",
    title="A checkpoint behind HTTP",
    minutes=50,
    difficulty=2,
    cost="tens of seconds",
    world=Crashes(
        (Function("create_app", ("checkpoint_path",)),),
        cases,
        limits=Limits(cpu_seconds=120, load_cpu_seconds=10, idle_seconds=30, silent_seconds=60, wall_seconds=60),
        imported=(
            "fastapi",
            "uvicorn",
            "uvicorn.lifespan.on",
            "uvicorn.lifespan.off",
            "uvicorn.protocols.http.h11_impl",
            "uvicorn.loops.asyncio",
            "anyio._backends._asyncio",
        ),
    ),
    checks=(
        Check("answers", "Answers equal the trained model's, for one row and for many", 4, serving.answers),
        Check("eval", "Dropout and BatchNorm as in evaluation", 3, serving.evaluation),
        Check("prefix", "A checkpoint of DDP, whose keys begin with module.", 3, serving.prefix),
        Check("once", "The model is loaded once, not for each request", 3, serving.once),
        Check("concurrent", "Requests that come together have each its own answer", 4, serving.concurrent),
        Check("bad_input", "Bad input is answered 422, and the server goes on", 4, serving.bad_input),
        Check("ready", "Ready with a whole checkpoint, not ready with any other, and it says why", 4, serving.ready),
        Check("safe", "Loading a checkpoint runs no code that is in it", 1, serving.safe),
        Check("no_lifespan", "It works without lifespan events", 2, serving.no_lifespan),
    ),
)
