"""The course's language model under torchrun and DDP: a job that survives the loss of a rank, by its own checkpoint.

    torchrun --standalone --nproc-per-node 2 --max-restarts 2 elastic_demo.py FOLDER KILL_AT STEPS

Rank 1 kills itself in step KILL_AT of its first life. Who did what when is in FOLDER/log-<rank>.jsonl, and what the
training came to in FOLDER/result-<rank>.json.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from courselib import language

EVERY = 40  # steps between two checkpoints
LOGGED = 10  # steps in one line of the log

folder, kill_at, steps = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
rank, life = int(os.environ["RANK"]), int(os.environ["TORCHELASTIC_RESTART_COUNT"])


def log(what: str, first: int, last: int, since: float) -> None:
    with (folder / f"log-{rank}.jsonl").open("a") as file:
        file.write(json.dumps([life, what, first, last, since, time.time()]) + "\n")


def save(step: int) -> None:
    state = {"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict()}
    with (folder / "checkpoint.partial").open("wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(folder / "checkpoint.partial", folder / "checkpoint.pt")


since = time.time()
torch.set_num_threads(1)
dist.init_process_group("gloo")
model, first = language.made(), 0
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
if (folder / "checkpoint.pt").exists():  # nobody loads it for you
    state = torch.load(folder / "checkpoint.pt")
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    first = state["step"] + 1
wrapped = DistributedDataParallel(model)
log("start", first, first, since)
since = time.time()
for step in range(first, steps):
    x, y = language.batch(step, rank, 2)  # the step decides which sequences: that is the position in the data
    optimizer.zero_grad()
    loss = language.loss(wrapped(x), y)
    if (life, rank, step) == (0, 1, kill_at):
        os.kill(os.getpid(), signal.SIGKILL)
    loss.backward()
    optimizer.step()
    if (step + 1) % LOGGED == 0:
        log("steps", step + 1 - LOGGED, step, since)
        since = time.time()
    if (step + 1) % EVERY == 0:
        if rank == 0:
            save(step)
        dist.barrier()  # nobody is ahead of the checkpoint
        log("save", step, step, since)
        since = time.time()
told = {
    "loss": language.held_out(model),
    "state": language.state_bytes(optimizer),
    "activations": language.activation_bytes(model, x, y),
}
(folder / f"result-{rank}.json").write_text(json.dumps(told))
dist.destroy_process_group()
