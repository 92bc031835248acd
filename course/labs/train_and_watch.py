"""Training under DDP on two gloo ranks, watched: a checkpoint, TensorBoard, W&B without a network, a profiler's trace.

    python train_and_watch.py FOLDER [--json]

leaves in FOLDER `checkpoint.pt`, saved as most scripts save it (`ddp.state_dict()`, so every key begins with
`module.`), `losses.json` (what each rank saw), `tensorboard/`, `wandb/` where wandb is installed, and `trace-RANK.json`
of one step of a larger network, which ui.perfetto.dev opens. Rank 1's samples are noisier than rank 0's.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import json
import os
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

from servers import Seen, Servers, main

RANKS, STEPS, BATCH, SHARD = 2, 300, 64, 1536
NOISE = (0.03, 0.25)  # of each rank's samples: the file was sorted by where they came from
WIDE, LAYERS = 1024, 6  # the network of the trace: 24 MiB of gradients


def lab(folder: Path, servers: Servers, seen: Seen) -> None:
    """Starts the ranks, waits for them, and says what is there."""
    folder.mkdir(parents=True, exist_ok=True)
    meeting = servers.folder / "meeting"
    command = [sys.executable, __file__, "--rank"]
    ranks = [servers.start(f"rank-{r}", [*command, str(r), str(meeting), str(folder.resolve())]) for r in range(RANKS)]
    for rank, server in enumerate(ranks):
        if server.process.wait(120):
            raise RuntimeError(f"rank {rank} ended with {server.process.returncode}")
    watched = json.loads((folder / "losses.json").read_text())
    seen.row("steps, ranks, samples a step and rank", f"{STEPS}, {RANKS}, {BATCH}")
    seen.row("the last ten steps, loss of rank 0's samples", f"{sum(watched['rank 0'][-10:]) / 10:.3f}")
    seen.row("the last ten steps, loss of all samples", f"{sum(watched['all'][-10:]) / 10:.3f}")
    for path in sorted(each for each in folder.rglob("*") if each.is_file()):
        seen.row(f"  {path.relative_to(folder)}", f"{path.stat().st_size:,} bytes")
    seen.figures.update(seconds=watched["seconds"], samples=STEPS * BATCH * RANKS, wandb=watched["wandb"])


def rank_main(rank: int, meeting: str, folder: Path) -> None:
    """One rank: the training, then the step that is traced."""
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo", f"file://{meeting}", timedelta(seconds=60), RANKS, rank)
    train(rank, folder)
    trace(rank, folder)
    dist.destroy_process_group()


def train(rank: int, folder: Path) -> None:
    """The loop: each rank's own loss, the loss of all, and rank 0 writes."""
    import torch
    import torch.distributed as dist
    from spirals import network, samples
    from torch.nn.parallel import DistributedDataParallel

    torch.manual_seed(0)
    model = DistributedDataParallel(network())
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    points, arms = samples(SHARD, NOISE[rank], seed=rank)
    order = torch.Generator().manual_seed(rank)
    losses: dict[str, list[float]] = {"own": [], "all": []}
    times = []
    with loggers(folder) if rank == 0 else contextlib.nullcontext({}) as logs:
        for step in range(STEPS):
            since = time.perf_counter()
            chosen = torch.randint(SHARD, (BATCH,), generator=order)
            each = torch.nn.functional.cross_entropy(model(points[chosen]), arms[chosen], reduction="none")
            optimizer.zero_grad()
            each.mean().backward()
            optimizer.step()
            both = torch.stack([each.detach().sum(), torch.tensor(float(BATCH))])
            dist.all_reduce(both)  # sum and count, on every rank: the shards need not be equal
            losses["own"].append(each.mean().item())
            losses["all"].append((both[0] / both[1]).item())
            times.append(time.perf_counter() - since)
            for log in logs.values():
                log({"loss/rank 0": losses["own"][-1], "loss/all": losses["all"][-1]}, step)
    gathered: list[Any] = [None] * RANKS
    dist.all_gather_object(gathered, losses["own"])
    if rank == 0:
        torch.save({"model": model.state_dict(), "step": STEPS}, folder / "checkpoint.part")
        os.replace(folder / "checkpoint.part", folder / "checkpoint.pt")
        there = {f"rank {r}": own for r, own in enumerate(gathered)}
        there |= {"all": losses["all"], "seconds": sum(times[1:]) * STEPS / (STEPS - 1), "wandb": "wandb" in logs}
        (folder / "losses.json").write_text(json.dumps(there))


@contextlib.contextmanager
def loggers(folder: Path) -> Iterator[dict[str, Any]]:
    """Where rank 0 writes: TensorBoard and W&B, each where it is installed, as functions of (values, step)."""
    with contextlib.ExitStack() as stack:
        logs: dict[str, Any] = {}
        if importlib.util.find_spec("tensorboard"):
            from torch.utils.tensorboard import SummaryWriter

            writer = stack.enter_context(SummaryWriter(str(folder / "tensorboard")))
            logs["tensorboard"] = lambda values, step: [writer.add_scalar(name, v, step) for name, v in values.items()]
        if importlib.util.find_spec("wandb"):
            import wandb

            settings = wandb.Settings(
                mode="offline", silent=True, console="off", root_dir=str(folder), x_disable_stats=True,
                disable_git=True, save_code=False, x_save_requirements=False,
            )  # fmt: skip
            config = {"lr": 0.01, "ranks": RANKS, "batch a rank": BATCH}
            run = stack.enter_context(wandb.init(project="rankup", config=config, settings=settings))
            logs["wandb"] = lambda values, step: run.log(values, step=step)
        yield logs


def trace(rank: int, folder: Path) -> None:
    """Four steps of a larger network, of which the profiler keeps the last."""
    import torch
    from torch.nn.parallel import DistributedDataParallel
    from torch.profiler import ProfilerActivity, profile, record_function, schedule

    layers = [torch.nn.Linear(WIDE, WIDE) for _ in range(LAYERS)]
    model = DistributedDataParallel(torch.nn.Sequential(*layers), bucket_cap_mb=4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def keep(profiler: Any) -> None:
        profiler.export_chrome_trace(str(folder / f"trace-{rank}.json"))

    steps = schedule(wait=2, warmup=1, active=1)
    with profile(activities=[ProfilerActivity.CPU], schedule=steps, on_trace_ready=keep) as profiler:
        for _ in range(4):
            with record_function("forward"):
                loss = model(torch.randn(BATCH, WIDE)).square().mean()
            with record_function("backward"):
                loss.backward()
            with record_function("optimizer"):
                optimizer.step()
                optimizer.zero_grad()
            profiler.step()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--rank"]:
        rank_main(int(sys.argv[2]), sys.argv[3], Path(sys.argv[4]))
    elif len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit("say which folder the run is to be kept in: python train_and_watch.py FOLDER")
    else:
        sys.exit(main(functools.partial(lab, Path(sys.argv[1])), sys.argv[2:]))
