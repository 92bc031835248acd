"""train(config): TorchTrainer on two workers, one of which is killed.

Ray's manual, "Ray Train: get started with PyTorch", "Saving and loading checkpoints" and "Handling failures" (V2); Li et
al. 2020, "PyTorch distributed", for what averaging gradients means. Before each batch a worker tells here which rows it
takes, and is killed here.

Whether gradients are averaged shows from who waits for whom: while one worker is held at the gate before its first batch
of an epoch, the other can begin its second one only where it needs nothing of the first. And in that training each
worker finds a y of its own: a model that both have trained misses each by half of what is between them, where both have
seen that x, and one that a worker trained for itself does not, however they wait for each other.

Each row of x has a twin whose y differs by 2, so that whatever the model no mean squared error is below 1: one that is
has been made up.
"""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

from grader.exercise import Check, Exercise
from grader.exercises.ray_train.training import BATCH_SIZE, EPOCHS, LR, WORKERS, Training
from grader.jobs.rays.bench import RayBench, once_more
from grader.lost import Lost
from grader.trace.gantt import Chart
from grader.worlds.ray import Ray

COLUMNS = 56  # so that a worker's last batch of an epoch is smaller than the others
QUIET_EPOCHS = 2
FLOOR, LEAST, MOST = 1.0, 0.75, 3.0  # mean squared errors: the best one that there is, and what is asked for
SAME = 1e-6  # of losses about 1: the same steps from the same state give the same bits
HELD_EPOCHS = 3
MISSED = 0.25  # of the error that a model of both workers has at least: a smaller one is of a model of one's own
IMPORTED = ("torch", "torch.distributed", "torch.utils.data", "ray.train", "ray.train.torch", "pyarrow.fs")


def _drawn(bench: RayBench, label: str, kill: tuple[int, int] | None = None, epochs: int = EPOCHS) -> Training:
    """Twins at places drawn from the seed: however rows are dealt out, about half of the twins part."""
    rng: random.Random = bench.rng("rows")
    rows = []
    for column in range(COLUMNS):
        middle = rng.gauss(0, 3)
        rows += [(column, middle - FLOOR), (column, middle + FLOOR)]
    rng.shuffle(rows)
    label = f"{len(rows)} rows, {epochs} epochs, batch_size={BATCH_SIZE}{label}"
    hot, y = [column for column, _ in rows], [round(y, 6) for _, y in rows]
    return Training(bench, label, hot, y, kill, epochs=epochs)


def _undisturbed(bench: RayBench) -> Training:
    """The training in which nothing goes wrong: made once for several checks."""
    kept: dict[str, Training] = bench.kept
    if "undisturbed" not in kept:
        kept["undisturbed"] = _drawn(bench, "")
        try:
            kept["undisturbed"].run()
        except Lost as trouble:
            if trouble.broke:
                del kept["undisturbed"]
            raise
    training = kept["undisturbed"]
    if not training.told:
        raise training.lost("crash", "The training did not finish.")
    return training


def _trains(bench: RayBench) -> Chart:
    training = _undisturbed(bench)
    loss = training.returned()
    if loss > MOST:
        text = (
            f"The loss is {loss:.3f}. After {EPOCHS} epochs of SGD with lr={LR} and momentum 0.9 at most {MOST:g} is "
            "left. Train with config's lr, for config's epochs."
        )
        raise training.lost("wrong_result", text, f"<= {MOST:g}", f"{loss:.3f}")
    if loss < LEAST:
        text = (
            f"The loss is {loss:.3f}, but no model gets below {FLOOR:g} here, because each row has a twin with another y. "
            "Report the mean squared error over a worker's rows."
        )
        raise training.lost("wrong_result", text, f">= {FLOOR:g}", f"{loss:.3f}")
    _unobserved(bench)
    return training.chart()


def _unobserved(bench: RayBench) -> None:
    """Raises Lost where a training does not come to its end without an observe."""
    training = _drawn(bench, "; config has no observe", epochs=QUIET_EPOCHS)
    training.observed = False
    try:
        training.run().result()
    except Lost as trouble:
        if trouble.diagnosis.kind != "crash" or trouble.broke:
            raise
        told = trouble.diagnosis.message
        text = told if told.startswith(training.label) else f"{training.label}. {told}"
        text += " With an observe, the same rows were trained on to the end. observe may be missing: call it only if it is there."
        raise Lost(replace(trouble.diagnosis, message=text), trouble.picture) from None


def _shards(bench: RayBench) -> Chart:
    return _undisturbed(bench).shared().chart()


def _averaged(bench: RayBench) -> Chart:
    training = _drawn(bench, "; each worker has a y of its own, and is held up now and then")
    training.own, rng = True, bench.rng("holds")
    training.hold = {epoch: rng.randrange(WORKERS) for epoch in rng.sample(range(1, EPOCHS), HELD_EPOCHS)}
    training.run()
    alone = training.alone
    if alone is not None:
        other = training.hold[alone.epoch]
        text = (
            f"In epoch {alone.epoch} rank {other} was held up before its first batch. Rank {alone.rank} took its second "
            f"batch in the meantime, so it did not wait for rank {other}'s gradients. Average the gradients in every step "
            "(ray.train.torch.prepare_model)."
        )
        raise training.lost("wrong_result", text, f"rank {alone.rank} waits for rank {other}", "it does not")
    training.by_two()
    if training.told and (missed := MISSED * training.missed) > MOST and (loss := training.returned()) < missed:
        text = (
            f"The workers' y are {training.gap:g} apart here, so a model that both train has a mean squared error of "
            f"about {training.missed:.0f}. The loss is only {loss:.2f}, as if each worker trained a model of its own. "
            "Average the gradients in every step (ray.train.torch.prepare_model)."
        )
        raise training.lost("wrong_result", text, f"about {training.missed:.0f}", f"{loss:.2f}")
    return training.chart()


def _checkpoint(bench: RayBench) -> Chart:
    training = _undisturbed(bench)
    training.returned()
    if not training.told["checkpoint"] or not training.told["files"]:
        got = "an empty one" if training.told["checkpoint"] else "none"
        text = "The result has no checkpoint. Give one to ray.train.report in every epoch."
        if training.told["checkpoint"]:
            text = (
                "The result's checkpoint has no files. Write the state into its folder, and leave it in storage_path."
            )
        raise training.lost("wrong_result", text, "a checkpoint", got)
    return training.saved().chart()


def _resumes(bench: RayBench) -> Chart:
    rng = bench.rng("resumes")
    epoch, rank = rng.randrange(7, 12), rng.randrange(WORKERS)
    training = _drawn(
        bench, f"; rank {rank} is killed in epoch {epoch}, after the checkpoint of epoch {epoch - 1}", (epoch, rank)
    )
    try:
        training.run()
    except Lost as trouble:
        if trouble.diagnosis.kind != "crash" or training.killed is None:
            raise
        text = f"{trouble.diagnosis.message} A worker had been killed. Allow failures (FailureConfig), and resume."
        raise training.lost("crash", text, "the training goes on", "an error", trouble.diagnosis.line) from None
    if training.killed is None:
        text = f"Rank {rank} never reported epoch {epoch}. Call observe(rank, epoch, row_numbers) before each batch."
        raise training.lost("wrong_result", text, f"a batch in epoch {epoch}", "none")
    loss = training.returned()
    first = min((batch.epoch for batch in training.after), default=None)
    if first is None:
        text = "After the kill no worker took a batch. Go on after the last checkpoint."
        raise training.lost("wrong_result", text, "the training goes on", "nothing")
    if not epoch - 1 <= first <= epoch:
        text = f"After the kill in epoch {epoch} the workers went on with epoch {first}. "
        if first > epoch:
            text += f"So epoch {epoch} was left out. Go on with the epoch after that of the checkpoint."
        elif training.registered:
            text += (
                f"The checkpoint of epoch {epoch - 1} was there. Load ray.train.get_checkpoint() at the start, and go on with "
                "the epoch after its own."
            )
        else:
            text += f"There was no checkpoint of epoch {epoch - 1}. Report one in every epoch."
        raise training.lost("not_durable", text, f"epoch {epoch}", f"epoch {first}")
    undisturbed = _undisturbed(bench).returned()
    if abs(loss - undisturbed) > SAME:
        text = (
            f"The last loss is {loss:.7f}. Without a kill it is {undisturbed:.7f}. Put the model, the optimizer's momentum "
            "and what decides the order of the rows into the checkpoint. Restore them on every worker, and begin every run "
            "with the same model."
        )
        raise training.lost("wrong_result", text, f"{undisturbed:.7f}", f"{loss:.7f}")
    return training.chart()


IN_BOX = Path(__file__).with_name("in_box.py")

EXERCISE = Exercise(
    name="ray_train",
    chapter="13",
    title="Train on two workers, and outlive a kill",
    minutes=45,
    difficulty=2,
    cost="minute",
    world=Ray(("train",), in_box=IN_BOX, imported=IMPORTED),
    checks=(
        Check("trains", "The loss comes down, and the result tells it", 4, once_more(_trains)),
        Check("shards", "Two workers take different rows, and together all", 4, once_more(_shards)),
        Check("averaged", "Gradients are averaged over the workers", 4, once_more(_averaged)),
        Check("checkpoint", "The result brings a checkpoint that is not empty", 3, once_more(_checkpoint)),
        Check("resumes", "A killed worker: training goes on after the last checkpoint", 5, once_more(_resumes)),
    ),
)
