"""DDP, a DataLoader over the rest of the epoch, AdamW with a schedule, and dropout, whose generator is each rank's own:
each rank writes its shard under the step's number, and rank 0 then names the step in one small file."""
import argparse
import json
import os
import tempfile
from contextlib import contextmanager
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, Subset, TensorDataset


@contextmanager
def replaced(path):
    fresh = path.with_name(path.name + ".part")
    with open(fresh, "wb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())
    fresh.rename(path)


class Run:
    def __init__(self, data, work, epochs, batch_size):
        self.rank, self.work, self.epochs, self.batch_size = dist.get_rank(), Path(work), epochs, batch_size
        content = torch.load(data, weights_only=True)
        rows = torch.arange(len(content["x"]))
        self.table = TensorDataset(content["x"], content["y"], rows)
        self.sampler = DistributedSampler(self.table, seed=23)
        torch.manual_seed(5)
        net = nn.Sequential(nn.Linear(content["x"].shape[1], 8), nn.ReLU(), nn.Dropout(0.25), nn.Linear(8, 1))
        self.model = DistributedDataParallel(net)
        self.optimizer = torch.optim.AdamW(net.parameters(), lr=0.02)
        self.schedule = torch.optim.lr_scheduler.ExponentialLR(self.optimizer, 0.97)
        self.steps = 0
        torch.manual_seed(1000 + self.rank)

    def parts(self):
        return {"model": self.model, "optimizer": self.optimizer, "schedule": self.schedule}

    def save(self):
        state = {name: part.state_dict() for name, part in self.parts().items()} | {"random": torch.get_rng_state()}
        with replaced(self.work / f"shard-{self.steps}-{self.rank}.pt") as file:
            torch.save(state, file)
        dist.barrier()
        if self.rank == 0:
            with replaced(self.work / "LATEST") as file:
                file.write(b"%d" % self.steps)
        dist.barrier()
        (self.work / f"shard-{self.steps - 1}-{self.rank}.pt").unlink(missing_ok=True)

    def load(self):
        latest = self.work / "LATEST"
        if not latest.exists():
            return
        self.steps = int(latest.read_bytes())
        state = torch.load(self.work / f"shard-{self.steps}-{self.rank}.pt")
        for name, part in self.parts().items():
            part.load_state_dict(state[name])
        torch.set_rng_state(state["random"])

    def __call__(self):
        per_epoch = len(self.sampler) // self.batch_size
        with open(self.work / f"steps-{self.rank}.jsonl", "a", buffering=1) as log:
            for epoch in range(self.steps // per_epoch, self.epochs):
                self.sampler.set_epoch(epoch)
                rest = list(self.sampler)[self.steps % per_epoch * self.batch_size :]
                apart = torch.Generator()  # each loader draws a number, which must not come from the dropout's generator
                for x, y, rows in DataLoader(Subset(self.table, rest), batch_size=self.batch_size, generator=apart):
                    self.optimizer.zero_grad()
                    mse_loss(self.model(x), y).backward()
                    self.optimizer.step()
                    self.schedule.step()
                    log.write(json.dumps(dict(step=self.steps, rows=rows.tolist())) + "\n")
                    self.steps += 1
                    self.save()
        if self.rank == 0:
            torch.save(self.model.module.state_dict(), self.work / "final.pt")


def train(data: str, work: str, epochs: int, batch_size: int) -> None:
    dist.init_process_group("gloo")
    dist.barrier()
    run = Run(data, work, epochs, batch_size)
    run.load()
    run()
    dist.barrier()
    dist.destroy_process_group()


def one_rank() -> list[str]:
    folder = Path(tempfile.mkdtemp())
    x = torch.randn(16, 3)
    torch.save({"x": x, "y": x.sum(1, keepdim=True)}, folder / "data.pt")
    train(str(folder / "data.pt"), str(folder), 2, 4)
    return sorted(path.name for path in folder.iterdir())


if __name__ == "__main__" and "TORCHELASTIC_RUN_ID" in os.environ:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--epochs", type=int, required=True)
    parser.add_argument("--batch-size", type=int, default=4)
    train(**vars(parser.parse_args()))
