import argparse
import json
import os
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DistributedSampler

SEED = 7


def save(work: Path, state: dict) -> None:
    new = work / "checkpoint.new"
    with open(new, "wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(new, work / "checkpoint.pt")


def train(data: str, work: str, epochs: int, batch_size: int) -> None:
    dist.init_process_group("gloo")
    rank, folder = dist.get_rank(), Path(work)
    told = torch.load(data)
    x, y = told["x"], told["y"]
    torch.manual_seed(SEED)
    model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(x.shape[1], 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    sampler = DistributedSampler(x, seed=SEED, drop_last=True)
    done = 0  # steps, of all epochs
    if (folder / "checkpoint.pt").exists():
        found = torch.load(folder / "checkpoint.pt")
        model.module.load_state_dict(found["model"])
        optimizer.load_state_dict(found["optimizer"])
        done = found["done"]
    steps = len(sampler) // batch_size
    for epoch in range(done // steps, epochs):
        sampler.set_epoch(epoch)
        order = list(sampler)
        for position in range(done % steps, steps):
            rows = order[position * batch_size : (position + 1) * batch_size]
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(x[rows]), y[rows]).backward()
            optimizer.step()
            with open(folder / f"steps-{rank}.jsonl", "a") as log:
                log.write(json.dumps({"step": done, "rows": rows}) + "\n")
            done += 1
            if rank == 0:
                save(folder, {"model": model.module.state_dict(), "optimizer": optimizer.state_dict(), "done": done})
            dist.barrier()  # nobody goes on before the checkpoint is there
    if rank == 0:
        torch.save(model.module.state_dict(), folder / "final.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--epochs", type=int, required=True)
    parser.add_argument("--batch-size", type=int, default=4)
    train(**vars(parser.parse_args()))
