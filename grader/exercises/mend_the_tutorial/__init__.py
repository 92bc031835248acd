"""Eight functions as they stand in well-known tutorials, each wrong, to be mended.

On ranks: values and gradients against one process in float64. `save` is killed before its file operations (rename(2),
fsync(2); Pillai et al. 2014, *All File Systems Are Not Created Equal*, section 3), and what `global_means` submits is
read off Ray's own tables.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from grader.exercise import Check, Draw, Exercise
from grader.exercises.common import checks
from grader.exercises.mend_the_tutorial import drawn, models, saving, tensors, whole
from grader.jobs.rays.bench import once_more
from grader.ranks.program import Function, Limits
from grader.worlds.cases import Case
from grader.worlds.ranks import Crashes, Ranks
from grader.worlds.ray import Ray
from grader.worlds.several import Several

HERE = Path(__file__)
IMPORTED = ("torch._dynamo", "torch.optim", "grader.jobs.rays.absent")


def cases(draw: Draw) -> Iterator[Case]:
    """Every case of the checks on ranks, each group also on two real processes."""
    for n in (1, 2, 3, 4):
        yield from drawn.on(draw, n, "sim")
    yield from drawn.on(draw, 2, "gloo")


EXERCISE = Exercise(
    name="mend_the_tutorial",
    chapter="20",
    title="Mend the tutorial: eight snippets that everybody copies",
    minutes=75,
    difficulty=2,
    cost="tens of seconds",
    world=Several(
        Ranks(
            (
                Function("share_labels", ("labels", "n")),
                Function("gather_counts", ("count",)),
                Function("ParameterServer", ("model",)),
                Function("train", ("model", "batches", "optimizer", "loss_fn")),
                Function("masked_loss", ("logits", "labels", "mask")),
                Function("snapshot", ("model",)),
            ),
            cases,
            limits=checks.TRAINING,
            imported=IMPORTED,
            in_box=HERE.with_name("ranks_in_box.py"),
        ),
        {
            "save": Crashes(
                (Function("save", ("model", "optimizer", "path")),),
                saving.cases,
                limits=Limits(cpu_seconds=60, load_cpu_seconds=10, idle_seconds=30, silent_seconds=60, wall_seconds=60),
                imported=IMPORTED,
                in_box=HERE.with_name("lives_in_box.py"),
            ),
            "global_means": Ray(("global_means",), in_box=HERE.with_name("ray_in_box.py")),
        },
    ),
    checks=(
        Check("share_labels", "Labels on every rank, bit for bit", 3, tensors.share_labels),
        Check("gather_counts", "Counts on rank 0, exact", 3, tensors.gather_counts),
        Check("parameter_server", "A step of SGD in the model's own parameters", 3, models.parameter_server),
        Check("train", "The mean of all ranks' gradients, and of all samples' losses", 4, models.train),
        Check("masked_loss", "The mean over the tokens of all ranks", 4, tensors.masked_loss),
        Check(
            "global_means", "Every row counts alike, and files are read side by side", 4, once_more(whole.global_means)
        ),
        Check("save", "The old file or the new one, whatever happens when", 4, saving.save),
        Check("snapshot", "A copy that training does not change", 3, models.snapshot),
    ),
)
