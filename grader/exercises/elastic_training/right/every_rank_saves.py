"""Every rank keeps a checkpoint of its own, with its generators; all go on from the newest that all of them have."""

import argparse
import json
import os
import pathlib

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel as DDP


class Trainer:
    def __init__(self, options):
        self.options = options
        self.work = pathlib.Path(options.work)
        self.rank = int(os.environ["RANK"])
        self.world = int(os.environ["WORLD_SIZE"])
        held = torch.load(options.data, weights_only=True)
        self.x, self.y = held["x"], held["y"]
        torch.manual_seed(5)
        layers = [torch.nn.Linear(self.x.shape[1], 16), torch.nn.Dropout(0.2), torch.nn.ReLU(), torch.nn.Linear(16, 1)]
        self.model = DDP(torch.nn.Sequential(*layers))
        torch.manual_seed(50 + self.rank)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.01)
        self.schedule = torch.optim.lr_scheduler.ExponentialLR(self.optimizer, 0.98)
        self.step = 0

    def path(self, step):
        return self.work / f"rank{self.rank}-step{step}.ckpt"

    def mine(self):
        return [int(p.stem.split("step")[1]) for p in self.work.glob(f"rank{self.rank}-step*.ckpt")]

    def resume(self):
        everybodys = [None] * self.world
        dist.all_gather_object(everybodys, self.mine())
        common = set.intersection(*map(set, everybodys))
        if common:
            held = torch.load(self.path(max(common)), weights_only=True)
            self.model.load_state_dict(held["model"])
            self.optimizer.load_state_dict(held["optimizer"])
            self.schedule.load_state_dict(held["schedule"])
            torch.set_rng_state(held["generator"])
            self.step = max(common)

    def keep(self):
        held = {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}
        held |= {"schedule": self.schedule.state_dict(), "generator": torch.get_rng_state()}
        partial = self.path(self.step).with_suffix(".part")
        torch.save(held, partial)
        with open(partial, "rb+") as file:
            os.fsync(file.fileno())
        partial.rename(self.path(self.step))
        dist.barrier()
        for step in sorted(self.mine())[:-2]:
            self.path(step).unlink()

    def batches(self, epoch):
        order = torch.randperm(len(self.x), generator=torch.Generator().manual_seed(epoch)).tolist()
        share = order[self.rank :: self.world]
        return [share[i : i + self.options.batch_size] for i in range(0, len(share), self.options.batch_size)]

    def run(self):
        self.resume()
        per_epoch = len(self.batches(0))
        for step in range(self.step, self.options.epochs * per_epoch):
            rows = self.batches(step // per_epoch)[step % per_epoch]
            self.optimizer.zero_grad()
            torch.nn.functional.huber_loss(self.model(self.x[rows]), self.y[rows]).backward()
            self.optimizer.step()
            self.schedule.step()
            with open(self.work / f"steps-{self.rank}.jsonl", "a") as log:
                print(json.dumps({"step": step, "rows": rows}), file=log)
            self.step = step + 1
            self.keep()
        if self.rank == 0:
            torch.save(self.model.module.state_dict(), self.work / "final.pt")


@record
def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data")
    parser.add_argument("--work")
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--batch-size", type=int, default=8)
    dist.init_process_group("gloo")
    Trainer(parser.parse_args()).run()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
