"""A job for torchrun that survives the loss of a rank: it resumes from its own checkpoint.

    torchrun --standalone --nproc-per-node 2 --max-restarts 2 elastic_demo.py FOLDER KILL_AT STEPS

Rank 1 kills itself in step KILL_AT of its first life. Who did what when is in FOLDER/log-<rank>.jsonl.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist

folder, kill_at, steps = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
rank, life = int(os.environ["RANK"]), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
EVERY = 4  # steps between two checkpoints


def log(what: str, step: int, since: float) -> None:
    with (folder / f"log-{rank}.jsonl").open("a") as file:
        file.write(json.dumps([life, what, step, since, time.time()]) + "\n")


def save(step: int, weights: torch.Tensor) -> None:
    with (folder / "checkpoint.partial").open("wb") as file:
        torch.save({"step": step, "weights": weights}, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(folder / "checkpoint.partial", folder / "checkpoint.pt")


since = time.time()
dist.init_process_group("gloo")
weights, first = torch.zeros(1000, dtype=torch.float64), 0
if (folder / "checkpoint.pt").exists():  # nobody loads it for you
    state = torch.load(folder / "checkpoint.pt")
    weights, first = state["weights"], state["step"] + 1
log("start", first, since)
for step in range(first, steps):
    since = time.time()
    time.sleep(0.2)  # the work
    gradient = torch.full_like(weights, float(step * (rank + 1)))  # what depends on the step, as data do
    if (life, rank, step) == (0, 1, kill_at):
        os.kill(os.getpid(), signal.SIGKILL)
    dist.all_reduce(gradient)
    weights -= 0.1 * gradient
    log("step", step, since)
    if step % EVERY == EVERY - 1:
        since = time.time()
        if rank == 0:
            save(step, weights)
        dist.barrier()  # nobody is ahead of the checkpoint
        log("save", step, since)
(folder / f"result-{rank}.json").write_text(json.dumps(weights[0].item()))
dist.destroy_process_group()
