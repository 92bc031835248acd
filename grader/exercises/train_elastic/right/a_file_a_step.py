"""DDP, whose mean over ranks is undone; one file for each step's checkpoint; the attempt is one more than the greatest in
the logs; momentum and a schedule; zero-row parts go through the model as a batch of none."""
import argparse
import glob
import json
import math
import os
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def greatest_attempt(work):
    attempts = [0]
    for name in glob.glob(f"{work}/steps-*.jsonl"):
        for line in Path(name).read_text().splitlines():
            try:
                attempts.append(json.loads(line)["attempt"])
            except ValueError:  # cut off by a kill
                continue
    return max(attempts)


def newest(work):
    for path in sorted(Path(work).glob("after-*.pt"), reverse=True):
        return torch.load(path)
    return None


def write(state, path):
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix="part-", delete=False) as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    os.rename(file.name, path)


def train_elastic(data: str, work: str, epochs: int, global_batch: int) -> None:
    dist.init_process_group("gloo")
    rank, world, folder = dist.get_rank(), dist.get_world_size(), Path(work)
    beginning = [(greatest_attempt(work) + 1, newest(work)) if rank == 0 else None]
    dist.broadcast_object_list(beginning)
    attempt, saved = beginning[0]

    table = torch.load(data)
    x, y = table["x"], table["y"]
    torch.manual_seed(2)
    net = nn.Sequential(nn.Linear(x.shape[1], 5), nn.Tanh(), nn.Linear(5, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.8)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=5, gamma=0.9)
    done = 0
    if saved:
        done = saved["done"]
        for part, name in ((net, "net"), (optimizer, "optimizer"), (schedule, "schedule")):
            part.load_state_dict(saved[name])
    model = DistributedDataParallel(net)

    steps = math.ceil(len(x) / global_batch)
    for number in range(done, epochs * steps):
        epoch, place = divmod(number, steps)
        order = torch.randperm(len(x), generator=torch.Generator().manual_seed(31 + epoch))
        whole = order.split(global_batch)[place]
        mine = whole.tensor_split(world)[rank]
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x[mine]), y[mine], reduction="sum") * world / len(whole)
        loss.backward()
        optimizer.step()
        schedule.step()
        with open(folder / f"steps-{rank}.jsonl", "a") as log:
            line = {"step": number, "rows": mine.tolist(), "world": world, "attempt": attempt}
            log.write(json.dumps(line) + "\n")
        dist.barrier()
        if rank == 0:
            state = {"done": number + 1, "net": net.state_dict(), "optimizer": optimizer.state_dict()}
            write(state | {"schedule": schedule.state_dict()}, folder / f"after-{number + 1:08d}.pt")
            (folder / f"after-{number - 1:08d}.pt").unlink(missing_ok=True)
        dist.barrier()
    if rank == 0:
        write(net.state_dict(), folder / "final.pt")
    dist.barrier()
    dist.destroy_process_group()


def one_rank() -> list[dict]:
    folder = Path(tempfile.mkdtemp())
    x = torch.randn(8, 3)
    torch.save({"x": x, "y": x.sum(1, keepdim=True)}, folder / "data.pt")
    train_elastic(str(folder / "data.pt"), str(folder), 2, 3)
    return [json.loads(line) for line in (folder / "steps-0.jsonl").read_text().splitlines()]


if __name__ == "__main__" and "TORCHELASTIC_RUN_ID" in os.environ:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--epochs", type=int, required=True)
    parser.add_argument("--global-batch", type=int, required=True)
    train_elastic(**vars(parser.parse_args()))
