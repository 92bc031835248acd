"""Ray Train on two workers, one of which dies in epoch 7 of 10: from where does the job go on?

    python ray_train_restarts.py [--json]

needs Ray and PyTorch (`pip install 'rankup[jobs]'`), and no network. Both loops report a checkpoint after each epoch.
One of them reads it when it starts, the other one never does. It takes two to six minutes: Ray Train asks its workers
every 2 s, and starts all of them anew after a death.
"""

from __future__ import annotations

import os
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from ray_tour import tour
from servers import Seen, main

EPOCHS, DIES_IN = 10, 7


def restarts(ray: Any, folder: Path, seen: Seen) -> None:
    """The same job twice: rank 0 writes down which epochs it has reported."""
    from ray import train
    from ray.train.torch import TorchTrainer

    def loop(config: dict[str, Any]) -> None:
        rank, log, start = train.get_context().get_world_rank(), Path(config["log"]), 0
        checkpoint = train.get_checkpoint()
        if checkpoint and config["reads"]:
            start = int(Path(checkpoint.path, "epoch").read_text()) + 1
        for epoch in range(start, EPOCHS):
            if rank == 1 and epoch == DIES_IN and not log.with_suffix(".died").exists():
                log.with_suffix(".died").touch()
                os._exit(1)
            saved = Path(tempfile.mkdtemp(dir=folder))
            (saved / "epoch").write_text(str(epoch))
            kept = train.Checkpoint.from_directory(str(saved)) if rank == 0 else None
            train.report({"epoch": epoch}, checkpoint=kept)
            if rank == 0:
                with log.open("a") as file:
                    file.write(f"{epoch} ")

    for reads, name in ((True, "the loop reads the checkpoint"), (False, "the loop never reads it")):
        log = folder / f"reads_{reads}"
        failures, workers = train.FailureConfig(max_failures=3), train.ScalingConfig(num_workers=2)
        kept = train.RunConfig(name=log.name, storage_path=str(folder / "kept"), failure_config=failures)
        given = {"log": str(log), "reads": reads}
        TorchTrainer(loop, train_loop_config=given, scaling_config=workers, run_config=kept).fit()
        trained = log.read_text().split()
        seen.row(f"a worker dies in epoch {DIES_IN}; {name}", f"reported epochs {' '.join(trained)}")
        seen.figures["read" if reads else "never_read"] = len(trained)


if __name__ == "__main__":
    sys.exit(main(partial(tour, stations=(restarts,)), sys.argv[1:]))
